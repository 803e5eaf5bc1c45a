import { VirtualClock } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import type { ModelThread } from "@tutti/scheduling";
import { type GpuId, type Instant, after, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { AcceleratorCensus } from "./accelerator-census.ts";

const AT: Instant = instant(1_000_000);
let gpus = 0;
const gpu = (subCluster: string, serving: boolean, idle?: boolean) => ({ gpu: gpus++, subCluster, serving, idle });
/** A thread with a batch on each of these accelerators. */
const threadOn = (...on: number[]) => {
  const batches = on.map((one) => ({ grant: { gpu: one as GpuId } }));
  return { core: { inFlightBatches: batches } as unknown as ModelThread };
};

test("accelerators that serve are counted by sub-cluster, and those that nobody is known to use", () => {
  gpus = 0;
  const executors = [
    { gpus: [gpu("main", true, true), gpu("main", true, false), gpu("main", false, true)] },
    { gpus: [gpu("main", true), gpu("main", true, true), gpu("s1", true, true)] },
    {},
  ] as unknown as Heartbeat[];
  const census = new AcceleratorCensus({
    registry: { ofRole: () => executors },
    threads: { values: () => [threadOn(), threadOn(4)] },
    clock: new VirtualClock({ startAt: AT }),
  });
  expect(census.of("main")).toEqual({ accelerators: 4, idle: 1 }); // 1 and 3 did not say that they are idle
  expect(census.of("s1")).toEqual({ accelerators: 1, idle: 1 });
  expect([census.of("s2"), census.of(undefined)]).toEqual(Array(2).fill({ accelerators: 0, idle: 0 }));
});

test("however many refusals ask, accelerators are counted once in 5 ms", () => {
  const clock = new VirtualClock({ startAt: AT });
  let looks = 0;
  const registry = { ofRole: () => (looks++, []) };
  const census = new AcceleratorCensus({ registry, threads: { values: () => [] }, clock });
  for (let i = 0; i < 1_000; i++) census.of("main");
  expect(looks).toBe(1);
  clock.advanceTo(after(AT, millis(5)));
  census.of("main");
  expect(looks).toBe(2);
});
