import { VirtualClock } from "@tutti/clock";
import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { HandOver } from "./hand-over.ts";

function leaving(state = { leads: true, hasSpare: true, isOwed: false }) {
  const clock = new VirtualClock();
  const said: string[] = [];
  const handOver: HandOver = new HandOver({
    clock,
    leads: () => state.leads,
    hasSpare: () => state.hasSpare,
    isOwed: () => state.isOwed,
    leave: (left) => {
      said.push("leaves");
      left();
    },
    onYield: () => said.push(`yields ${handOver.yields}`),
    onOver: () => said.push(`over ${handOver.isOver}`),
  });
  handOver.begin(() => said.push("left"));
  return { clock, said, state, handOver };
}

test("a leader with a spare yields, leaves when another is heard to lead, and ends 100 ms later: its end must not take the processor from its successor", () => {
  const { clock, said, handOver } = leaving();
  handOver.successorLeads(); // nobody does yet
  clock.advanceBy(millis(50));
  expect([said, handOver.isOver]).toEqual([["yields true"], false]);
  handOver.deposed();
  clock.advanceBy(millis(10));
  expect([said, handOver.isOver]).toEqual([["yields true"], false]);
  handOver.successorLeads();
  expect(said).toEqual(["yields true", "over true", "leaves"]);
  clock.advanceBy(millis(99));
  expect([said.length, handOver.isOver]).toEqual([3, true]);
  clock.advanceBy(millis(1));
  expect(said).toEqual(["yields true", "over true", "leaves", "left"]);
  clock.advanceBy(millis(200));
  expect(said).toHaveLength(4);
});

test("a successor that has the lease and isn't heard is not waited for longer than 20 ms", () => {
  const { clock, said, handOver } = leaving();
  handOver.deposed();
  clock.advanceBy(millis(19));
  expect(said).toEqual(["yields true"]);
  clock.advanceBy(millis(1));
  expect(said).toEqual(["yields true", "over true", "leaves"]);
});

test("one that nobody follows leaves after 100 ms all the same", () => {
  const { clock, said } = leaving();
  clock.advanceBy(millis(99));
  expect(said).toEqual(["yields true"]);
  clock.advanceBy(millis(2));
  expect(said).toEqual(["yields true", "over true", "leaves", "left"]);
});

test("without a spare it stops at once and waits for answers that are due, 2 ms at most", () => {
  const patient = leaving({ leads: true, hasSpare: false, isOwed: true });
  patient.clock.advanceBy(millis(1));
  expect(patient.said).toEqual(["over true"]);
  patient.handOver.leaveIfUnowed();
  patient.state.isOwed = false;
  expect(patient.said).toEqual(["over true"]);
  patient.handOver.leaveIfUnowed();
  expect(patient.said).toEqual(["over true", "leaves", "left"]);

  const unanswered = leaving({ leads: true, hasSpare: false, isOwed: true });
  unanswered.clock.advanceBy(micros(2_001));
  expect(unanswered.said).toEqual(["over true", "leaves", "left"]);
});

test("a spare leaves at once", () => {
  const { said, handOver } = leaving({ leads: false, hasSpare: true, isOwed: false });
  handOver.deposed();
  expect(said).toEqual(["over true", "leaves", "left"]);
});

test("it leaves once, and whoever asked for it is told, also during it and afterwards", () => {
  const { clock, said, handOver } = leaving();
  handOver.begin(() => said.push("left, to a second"));
  handOver.deposed();
  handOver.successorLeads();
  handOver.begin(() => said.push("left, to a third"));
  clock.advanceBy(millis(100));
  handOver.begin(() => said.push("left, to a fourth"));
  const told = ["left", "left, to a second", "left, to a third", "left, to a fourth"];
  expect(said).toEqual(["yields true", "over true", "leaves", ...told]);
});
