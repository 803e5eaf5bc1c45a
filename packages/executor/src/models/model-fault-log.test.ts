import { VirtualClock } from "@tutti/ports/clock";
import { BUCKET, type ModelFaults, type Strike, faultKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { type Micros, actorKey, after, gpuId, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { beforeEach, expect, test } from "vitest";
import { ModelFaultLog } from "./model-fault-log.ts";

const model = { name: "mlp", number: 7 };
let clock: VirtualClock;
let store: InMemoryStore;
let faultLogs: ModelFaultLog[];
beforeEach(() => {
  clock = new VirtualClock();
  store = new InMemoryStore({
    deliver: (run) => {
      const alarm = clock.alarm(run);
      alarm.set(after(clock.now(), millis(1)));
    },
  });
  faultLogs = Array.from({ length: 5 }, () => new ModelFaultLog({ store, clock, log: noTelemetry.log }));
});
const pass = (time: Micros): void => clock.advanceTo(after(clock.now(), time));
const strike = (executor: number): Omit<Strike, "at"> => ({
  executor: actorKey(executor),
  host: `host-${executor}`,
  gpu: gpuId(executor),
  doing: "run",
  how: "crashed",
  startedAt: clock.now(),
});
function faults(): ModelFaults | undefined {
  let found: ModelFaults | undefined;
  store.get(BUCKET.profiles, faultKeys.model(7), (entry) => {
    if (entry !== "absent" && !("failure" in entry)) found = fromJson(entry.value) as ModelFaults;
  });
  pass(millis(2));
  return found;
}

test("executors on many hosts that write at once agree: none is forgotten, and the third quarantines", () => {
  let told = 0;
  faultLogs.slice(0, 2).forEach((faultLog, i) => faultLog.record(model, strike(i + 1), () => told++));
  pass(seconds(1));
  expect([told, faults()]).toMatchObject([2, { strikes: [{}, {}], quarantined: "" }]);
  faultLogs.forEach((faultLog, i) => faultLog.record(model, strike(i + 11), () => told++));
  pass(seconds(1));
  expect(told).toBe(7);
  expect(faults()?.strikes).toHaveLength(3);
  expect(faults()?.quarantined).toContain("3 times in a row");
});

test("a run that ended well forgets the strikes before it, and none after it", () => {
  faultLogs[0]!.record(model, strike(1), () => undefined);
  pass(millis(10));
  const startedAt = clock.now();
  faultLogs[1]!.record(model, strike(2), () => undefined);
  pass(millis(10));
  faultLogs[2]!.clear(model, startedAt);
  pass(millis(10));
  expect(faults()?.strikes.map(({ executor }) => executor)).toEqual([2]);
});

test("a quarantine is not lifted by a run that ends well elsewhere: only an operator does that", () => {
  for (const executor of [1, 2, 3]) {
    faultLogs[0]!.record(model, strike(executor), () => undefined);
    pass(millis(10));
  }
  faultLogs[1]!.clear(model, after(clock.now(), seconds(1)));
  pass(seconds(1));
  expect(faults()?.quarantined).not.toBe("");
});

test("a store that is away for a while is tried again, and given up in the end, so that the executor starts anyway", () => {
  let told = 0;
  store.available = false;
  faultLogs[0]!.record(model, strike(1), () => told++);
  pass(millis(500));
  store.available = true;
  pass(seconds(1));
  expect([told, faults()?.strikes.length]).toEqual([1, 1]);
  store.available = false;
  faultLogs[0]!.record(model, strike(2), () => told++);
  pass(seconds(10));
  expect(told).toBe(2);
});
