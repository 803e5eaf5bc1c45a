import { expect, test } from "vitest";
import { RunMemory } from "./run-memory.ts";

/** An engine whose memory grows to what the largest batch so far has taken. */
function engine() {
  let resident = 1_000;
  const memory = new RunMemory(() => resident);
  const run = (model: string, batchSize: number, bytes: number, { first = true, last = true } = {}): void => {
    const before = memory.before({ model }, first);
    resident += bytes;
    if (before !== undefined) memory.after({ model, batchSize }, before, last);
  };
  return { memory, run };
}

test("growth is added up to the first run of the largest batch, and later runs aren't looked at", () => {
  const { memory, run } = engine();
  memory.loaded({ name: "m", batchSizeMax: 8 });
  expect(memory.of("m")).toBeUndefined();
  run("m", 1, 10);
  run("m", 4, -30); // memory that was given back takes nothing
  run("m", 8, 40);
  run("m", 8, 500);
  expect(memory.of("m")).toBe(50);
});

test("a run beside another one says nothing (MEM-1), nor does one of a model that isn't loaded", () => {
  const { memory, run } = engine();
  memory.loaded({ name: "m", batchSizeMax: 2 });
  run("m", 2, 10, { first: false });
  run("m", 2, 10, { last: false });
  run("other", 2, 10);
  expect([memory.of("m"), memory.of("other")]).toEqual([undefined, undefined]);
  run("m", 2, 7);
  expect(memory.of("m")).toBe(7);
});

test("a model that is loaded again is measured anew, and one that never runs its largest batch not for ever", () => {
  const { memory, run } = engine();
  memory.loaded({ name: "m", batchSizeMax: 8 });
  for (let i = 0; i < 300; i++) run("m", 1, 1);
  expect(memory.of("m")).toBe(256);
  memory.loaded({ name: "m", batchSizeMax: 8 });
  expect(memory.of("m")).toBeUndefined();
  memory.unloaded("m");
  expect(memory.of("m")).toBeUndefined();
});
