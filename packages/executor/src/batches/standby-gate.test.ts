import { VirtualClock } from "@tutti/ports/clock";
import type { ModelStatus } from "@tutti/protocol";
import { after, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { StandbyGate, areMeasured } from "./standby-gate.ts";

const status = (more: Partial<ModelStatus>): ModelStatus => ({
  ...{ name: "m", number: 1, version: "1", state: "ready", reason: "", profiles: [], means: [] },
  ...{ executorTypes: ["cpu"], ...more },
});

function gate() {
  const clock = new VirtualClock();
  const told: string[] = [];
  const state = { couldServe: false, isMeasured: false };
  const made = new StandbyGate({
    clock,
    couldServe: () => state.couldServe,
    statuses: () => [status({ executorTypes: [state.isMeasured ? "cpu-50" : "cpu"] })],
    engineType: "cpu-50",
    onLoaded: () => told.push("loaded"),
    onReleased: () => told.push("released"),
  });
  const look = (change: Partial<typeof state>): void => {
    Object.assign(state, change);
    made.look();
  };
  return { made, look, told, pass: (time: number) => clock.advanceTo(after(clock.now(), seconds(time))) };
}

test("an executor that is held says once that it could serve: when its models are loaded and measured", () => {
  const { made, look, told, pass } = gate();
  look({ couldServe: false });
  look({ couldServe: true });
  pass(5);
  expect(told).toEqual([]);
  look({ isMeasured: true });
  look({});
  pass(60);
  expect([told, made.isHeld]).toEqual([["loaded"], true]);
  made.release();
  made.release();
  expect([told, made.isHeld]).toEqual([["loaded", "released"], false]);
});

test("without a measurement it waits for ten seconds, and not while it couldn't serve", () => {
  const { look, told, pass } = gate();
  look({ couldServe: true });
  pass(9);
  expect(told).toEqual([]);
  pass(2);
  expect(told).toEqual(["loaded"]);

  const other = gate();
  other.look({ couldServe: true });
  other.look({ couldServe: false }); // a model is being loaded
  other.pass(20);
  expect(other.told).toEqual([]);
  other.look({ couldServe: true });
  other.pass(11);
  expect(other.told).toEqual(["loaded"]);
});

test("a model counts as measured on a type that it was loaded on, or measured on since; one that isn't ready needn't be", () => {
  const apart = { byType: [{ type: "cpu", profiles: [], means: [] }] };
  expect(areMeasured([status({})], "cpu")).toBe(true);
  expect(areMeasured([status({})], "cpu-50")).toBe(false);
  expect(areMeasured([status({ executorTypes: ["cpu", "cpu-50"], ...apart })], "cpu-50")).toBe(false);
  expect(areMeasured([status({ executorTypes: ["cpu-50"], ...apart })], "cpu")).toBe(true);
  expect(areMeasured([undefined, status({ state: "profiling" })], "cpu-50")).toBe(true);
});
