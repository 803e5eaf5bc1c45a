import { VirtualClock } from "@tutti/ports/clock";
import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { LeaderStepDown } from "./leader-step-down.ts";

function leaving(state = { leads: true, hasSpare: true, isOwed: false }) {
  const clock = new VirtualClock();
  const said: string[] = [];
  const stepDown: LeaderStepDown = new LeaderStepDown({
    clock,
    leads: () => state.leads,
    hasSpare: () => state.hasSpare,
    isOwed: () => state.isOwed,
    leave: (left) => {
      said.push("leaves");
      left();
    },
    onYield: () => said.push(`yields ${stepDown.yields}`),
    onOver: () => said.push(`over ${stepDown.isOver}`),
  });
  stepDown.begin(() => said.push("left"));
  return { clock, said, state, leaderStepDown: stepDown };
}

test("a leader with a spare yields, leaves when another is heard to lead, and ends 100 ms later: its end must not take the processor from its successor", () => {
  const { clock, said, leaderStepDown: stepDown } = leaving();
  stepDown.successorLeads(); // no ranker leads yet
  clock.advanceBy(millis(50));
  expect([said, stepDown.isOver]).toEqual([["yields true"], false]);
  stepDown.deposed();
  clock.advanceBy(millis(10));
  expect([said, stepDown.isOver]).toEqual([["yields true"], false]);
  stepDown.successorLeads();
  expect(said).toEqual(["yields true", "over true", "leaves"]);
  clock.advanceBy(millis(99));
  expect([said.length, stepDown.isOver]).toEqual([3, true]);
  clock.advanceBy(millis(1));
  expect(said).toEqual(["yields true", "over true", "leaves", "left"]);
  clock.advanceBy(millis(200));
  expect(said).toHaveLength(4);
});

test("a successor that has the lease and isn't heard is not waited for longer than 20 ms", () => {
  const { clock, said, leaderStepDown: stepDown } = leaving();
  stepDown.deposed();
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
  patient.leaderStepDown.leaveIfUnowed();
  patient.state.isOwed = false;
  expect(patient.said).toEqual(["over true"]);
  patient.leaderStepDown.leaveIfUnowed();
  expect(patient.said).toEqual(["over true", "leaves", "left"]);

  const unanswered = leaving({ leads: true, hasSpare: false, isOwed: true });
  unanswered.clock.advanceBy(micros(2_001));
  expect(unanswered.said).toEqual(["over true", "leaves", "left"]);
});

test("a spare leaves at once", () => {
  const { said, leaderStepDown: stepDown } = leaving({ leads: false, hasSpare: true, isOwed: false });
  stepDown.deposed();
  expect(said).toEqual(["over true", "leaves", "left"]);
});

test("it leaves once, and whoever asked for it is told, also during it and afterwards", () => {
  const { clock, said, leaderStepDown: stepDown } = leaving();
  stepDown.begin(() => said.push("left, to a second"));
  stepDown.deposed();
  stepDown.successorLeads();
  stepDown.begin(() => said.push("left, to a third"));
  clock.advanceBy(millis(100));
  stepDown.begin(() => said.push("left, to a fourth"));
  const told = ["left", "left, to a second", "left, to a third", "left, to a fourth"];
  expect(said).toEqual(["yields true", "over true", "leaves", ...told]);
});
