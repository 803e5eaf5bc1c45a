import type { ScalingAdvised } from "@tutti/protocol";
import { instant } from "@tutti/units";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { Autoscaler, processesFor, stepTowards } from "./autoscaler.ts";
import { type ChildState, Supervisor } from "./supervisor.ts";

const advice = (gpus: number, change: number): ScalingAdvised => ({
  ...{ at: instant(0), advice: change, gpus, badRate: 0, idleShare: 0 },
});
const states = (...list: ChildState["state"][]) =>
  list.map((state, i) => ({ spec: { name: `executor-${i}`, command: "", args: [] }, state }));
const all = new Set(Array.from({ length: 8 }, (_, i) => `executor-${i}`));

test("advice is worth as many processes as have its accelerators", () => {
  expect(processesFor(advice(3, 2), 1)).toBe(5);
  expect(processesFor(advice(4, 1), 2)).toBe(3);
  expect(processesFor(advice(4, -2), 2)).toBe(1);
});

test("what is missing starts at once, what is too much goes one at a time, the highest first (AS2)", () => {
  const at = (wanted: number, list: ReturnType<typeof states>, isBusy = false) =>
    stepTowards(wanted, list, { min: 1, ours: all, isBusy, isSpare: () => true });
  expect(at(3, states("ready", "parked", "parked", "parked"))).toEqual({
    start: ["executor-1", "executor-2"],
    drain: undefined,
  });
  expect(at(3, states("ready", "starting", "waiting", "parked"))).toEqual({ start: [], drain: undefined });
  expect(at(1, states("ready", "ready", "ready", "parked"))).toEqual({ start: [], drain: "executor-2" });
  expect(at(1, states("ready", "ready", "ready", "parked"), true)).toEqual({ start: [], drain: undefined });
});

test("whoever is the last one of a sub-cluster stays, and the next one below goes", () => {
  const list = states("ready", "ready", "ready", "parked");
  const at = (isSpare: (name: string) => boolean) =>
    stepTowards(1, list, { min: 1, ours: all, isBusy: false, isSpare }).drain;
  expect(at((name) => name !== "executor-2")).toBe("executor-1");
  expect(at(() => false)).toBeUndefined();
});

test("the bounds hold whatever the advice is, and whom an operator drained stays down (AS1)", () => {
  const list = fc.array(fc.constantFrom<ChildState["state"]>("ready", "starting", "parked", "waiting", "given-up"), {
    minLength: 1,
    maxLength: 8,
  });
  fc.assert(
    fc.property(
      list,
      fc.integer({ min: -3, max: 20 }),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(255),
      (given, wanted, least, bits) => {
        const min = Math.min(least, given.length);
        const ours = new Set([...all].filter((_, i) => (bits >> i) % 2 === 1));
        const { start, drain } = stepTowards(wanted, states(...given), {
          ...{ min, ours, isBusy: false },
          isSpare: (name) => Number(name.at(-1)) % 2 === 0,
        });
        const up = given.filter((state) => ["ready", "starting", "waiting"].includes(state)).length;
        expect(up + start.length).toBeLessThanOrEqual(Math.max(up, given.length));
        if (drain !== undefined) expect([up - 1 >= min, Number(drain.at(-1)) % 2]).toEqual([true, 0]);
        for (const name of start) expect(ours.has(name)).toBe(true);
        expect(start.length === 0 || drain === undefined).toBe(true);
      },
    ),
  );
});

const LIVES = `process.on("disconnect", () => process.exit(0)); process.on("SIGTERM", () => process.exit(0)); process.send({ ready: true });`;
let supervisor: Supervisor | undefined;
afterEach(() => supervisor?.stop({ graceMs: 5_000 }));

test("processes come and go as advised, and one that does not come up is tried again later", async () => {
  const children = new Supervisor({ onReady: () => undefined, onLine: () => undefined, onExit: () => undefined });
  supervisor = children;
  const spec = (name: string, code: string) => ({ name, command: process.execPath, args: ["-e", code] });
  const names = ["executor-0", "executor-1", "executor-2"];
  children.start(spec(names[0]!, LIVES));
  children.addParked(spec(names[1]!, LIVES));
  children.addParked(spec(names[2]!, "process.exit(3)"));
  const said: string[] = [];
  let hear: () => void = () => undefined;
  const until = async (event: string): Promise<void> => {
    while (!said.includes(event)) await new Promise<void>((resolve) => (hear = resolve));
  };
  const scaler = new Autoscaler({
    ...{ supervisor: children, names, min: 1, gpusEach: 1 },
    say: (event, _, { name }) => {
      said.push(`${event} ${String(name)}`);
      hear();
    },
  });
  const running = (): string[] =>
    children
      .list()
      .filter(({ state }) => state === "ready")
      .map(({ spec: { name } }) => name);
  expect(children.list().map(({ state }) => state)).toEqual(["starting", "parked", "parked"]);
  scaler.hear(advice(1, 1));
  scaler.hear(advice(1, 1));
  // It becomes ready, although it is no longer needed: a starting process isn't drained.
  scaler.hear(advice(1, 0));
  await until("scaled executor-1");
  expect(said).toEqual(["scaling executor-1", "scaled executor-1"]);
  scaler.hear(advice(2, 1));
  await until("scaling-failed executor-2");
  scaler.hear(advice(2, 1));
  expect(said.filter((text) => text === "scaling executor-2")).toHaveLength(1);
  expect(running()).toContain("executor-1");
  said.length = 0;
  scaler.hear(advice(2, -1));
  scaler.hear(advice(2, -1));
  await until("scaled executor-1");
  expect(said).toEqual(["scaling executor-1", "scaled executor-1"]);
  scaler.close();
  scaler.hear(advice(1, 3));
  expect(said).toHaveLength(2);
});
