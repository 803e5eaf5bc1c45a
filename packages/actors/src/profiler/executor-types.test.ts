import type { ExecutorInventory, Heartbeat } from "@tutti/protocol";
import { VirtualClock } from "@tutti/ports/clock";
import { type ActorKey, actorKey, gpuId, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { ExecutorTypes } from "./executor-types.ts";

const TIMEOUT = millis(300);

function cluster() {
  const clock = new VirtualClock();
  const [beating, gone] = [new Set<ActorKey>(), new Set<ActorKey>()];
  const get = (key: ActorKey): Heartbeat | undefined => (beating.has(key) ? ({ key } as Heartbeat) : undefined);
  const registry = { get, isGone: (key: ActorKey) => gone.has(key) };
  const types = new ExecutorTypes({ registry, startedAt: clock.now() }, clock, TIMEOUT);
  const hear = (executor: ActorKey, type: string): boolean =>
    types.hear({ executor, type, gpus: [gpuId(executor)], models: [{ number: 1 }] } as unknown as ExecutorInventory);
  return { clock, beating, gone, types, hear };
}

test("an executor whose inventory comes before its first heartbeat counts, and is forgotten if none comes", () => {
  const { clock, beating, types, hear } = cluster();
  expect(hear(actorKey(1), "slow")).toBe(true);
  expect([...types.serving(1)]).toEqual([["slow", 1]]);
  beating.add(actorKey(1));
  hear(actorKey(2), "fast");
  clock.advanceBy(TIMEOUT);
  expect([...types.serving(1)]).toEqual([["slow", 1]]);
  expect(types.of(actorKey(2))).toBeUndefined();
});

test("an inventory that comes after its executor's goodbye doesn't count", () => {
  const { gone, types, hear } = cluster();
  gone.add(actorKey(1));
  hear(actorKey(1), "slow");
  expect([...types.serving(1)]).toEqual([]);
});

test("a profiler knows all types once it has listened for a time-out and every living executor has told its type", () => {
  const { clock, types, hear } = cluster();
  const both = [actorKey(1), actorKey(2)];
  for (const executor of both) hear(executor, "fast");
  expect(types.knowsAll(both)).toBe(false);
  clock.advanceBy(TIMEOUT);
  expect([types.knowsAll(both), types.knowsAll([...both, actorKey(3)])]).toEqual([true, false]);
});
