import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { RequestWithdrawn } from "@tutti/protocol";
import { actorKey, millis, threadId } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { Outbox } from "./outbox.ts";

function scene(onFrame?: () => void) {
  const clock = new VirtualClock();
  const network = new InMemoryNetwork({ deliver: (run) => run(), later: (run) => run() });
  const frames: { readonly subject: string; readonly seqs: number[] }[] = [];
  network.connect({ name: "hearer" }).subscribe("to.>", ({ subject, payload }) => {
    const seqs: number[] = [];
    expect(new FrameReader().on(RequestWithdrawn, ({ seq }) => seqs.push(seq)).read(payload)).toBeUndefined();
    frames.push({ subject, seqs });
    onFrame?.();
  });
  const outbox = new Outbox(network.connect({ name: "sender" }), clock, actorKey(1));
  const add = (to: string, seq: number, urgency: "now" | "soon" | "at once"): void =>
    outbox.add(to, RequestWithdrawn, { thread: threadId(1, 0), seq }, urgency);
  return { clock, frames, add };
}

test("a message that leaves at once takes along all that waits, in its order, and nothing follows", () => {
  const { clock, frames, add } = scene();
  add("to.one", 1, "now");
  add("to.two", 2, "soon");
  expect(frames).toEqual([]);
  add("to.one", 3, "at once");
  const sent = [
    { subject: "to.one", seqs: [1, 3] },
    { subject: "to.two", seqs: [2] },
  ];
  expect(frames).toEqual(sent);
  clock.advanceBy(millis(100));
  expect(frames).toEqual(sent);
});

test("a message that may wait leaves at the end of its turn, and within a millisecond of another one with what follows it", () => {
  const { clock, frames, add } = scene();
  clock.advanceBy(millis(10));
  add("to.one", 1, "soon");
  clock.advanceBy(millis(0));
  expect(frames.map(({ seqs }) => seqs)).toEqual([[1]]);
  add("to.one", 2, "soon");
  clock.advanceBy(millis(0));
  add("to.one", 3, "soon");
  expect(frames).toHaveLength(1);
  clock.advanceBy(millis(1));
  expect(frames.map(({ seqs }) => seqs)).toEqual([[1], [2, 3]]);
});

test("what is added while messages leave is stranded nowhere, whoever flushes meanwhile", () => {
  let toDo = 1;
  const { clock, frames, add } = scene(() => {
    if (toDo-- !== 1) return;
    add("to.one", 2, "at once");
    add("to.one", 3, "now");
  });
  add("to.one", 1, "now");
  clock.advanceBy(millis(10));
  expect(frames.flatMap(({ seqs }) => seqs)).toEqual([1, 2, 3]);
});
