import type { ScalingAdvised } from "@tutti/protocol";
import { instant } from "@tutti/units";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { ProcessLog } from "../agent/process-log.ts";
import { keeperOf } from "../agent/process-manager.ts";
import { HeardSupervisor, PROCESS_TIMES } from "../testing/heard-supervisor.ts";
import { Autoscaler, processesFor, stepTowards } from "./autoscaler.ts";
import { type ChildOrder, type ChildState, type Hold, Supervisor } from "./supervisor.ts";

const advice = (gpus: number, change: number): ScalingAdvised => ({
  ...{ at: instant(0), advice: change, gpus, badRate: 0, idleShare: 0 },
});
const states = (...list: ChildState["state"][]) =>
  list.map((state, i) => ({
    ...{ spec: { name: `executor-${i}`, command: "", args: [] }, state, held: undefined as Hold },
    order: undefined as ChildOrder | undefined,
  }));
const mayStart = (): boolean => true;

test("advice is worth as many processes as have its accelerators", () => {
  expect(processesFor(advice(3, 2), 1)).toBe(5);
  expect(processesFor(advice(4, 1), 2)).toBe(3);
  expect(processesFor(advice(4, -2), 2)).toBe(1);
});

test("what is missing starts at once, what is too much goes one at a time, the highest first (AS2)", () => {
  const at = (wanted: number, list: ReturnType<typeof states>, isBusy = false) =>
    stepTowards(wanted, list, { min: 1, mayStart, isBusy, isSpare: () => true });
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
    stepTowards(1, list, { min: 1, mayStart, isBusy: false, isSpare }).drain;
  expect(at((name) => name !== "executor-2")).toBe("executor-1");
  expect(at(() => false)).toBeUndefined();
});

test("one that an order is being carried out on counts as what it will be, and is left alone (AS1)", () => {
  const at = (wanted: number, order: ChildOrder, ...list: ChildState["state"][]) => {
    const ordered = states(...list).map((state, i) => (i === 1 ? { ...state, order } : state));
    return stepTowards(wanted, ordered, { min: 1, mayStart, isBusy: false, isSpare: () => true });
  };
  const nothing = { start: [], drain: undefined };
  // A restart has ended the old process, or is starting the new one.
  for (const state of ["parked", "starting", "ready"] as const) {
    expect(at(2, "restart", "ready", state, "parked")).toEqual(nothing);
    // Until it is ready no other is drained either: of those that are needed fewer would serve.
    expect(at(2, "restart", "ready", state, "ready")).toEqual(nothing);
  }
  expect(at(1, "undrain", "ready", "starting")).toEqual(nothing);
  expect(at(2, "drain", "ready", "ready", "parked")).toEqual({ start: ["executor-2"], drain: undefined });
  expect(at(1, "drain", "ready", "ready")).toEqual(nothing);
  expect(at(2, "drain", "ready", "parked")).toEqual(nothing);
});

test("an executor that an operator restarts is not drained before it is ready (AS1)", async () => {
  const children = new HeardSupervisor({
    onReady: (name) => `ready ${name}`,
    onLine: () => undefined,
    onExit: (name) => `ended ${name}`,
  });
  supervisor = children.supervisor;
  const names = ["executor-0", "executor-1"];
  for (const name of names) supervisor.start({ name, command: process.execPath, args: ["-e", LIVES] });
  await children.until(() => names.every((name) => children.told.includes(`ready ${name}`)));
  const said: string[] = [];
  const scaler = new Autoscaler({
    ...{ supervisor, names, min: 1, gpusEach: 1 },
    say: (event, _, { name }) => said.push(`${event} ${String(name)}`),
  });
  const operator = keeperOf({ supervisor, logs: new ProcessLog(), roleOf: () => "executor" });
  const restarted = operator.perform("restart", "executor-1", {
    ...PROCESS_TIMES,
    // One is enough, and the only one that is left to drain now serves alone.
    report: () => scaler.hear(advice(2, -1), { isSpare: (gpus) => gpus[0] === 1 }),
  });
  await restarted;
  expect(said).toEqual([]);
  expect(supervisor.list()).toMatchObject([{ state: "ready" }, { state: "ready", order: undefined }]);
  scaler.close();
}, 60_000);

test("an operator's order that fails holds nothing: neither up nor free of what held before", async () => {
  const children = new Supervisor({ onReady: () => undefined, onLine: () => undefined, onExit: () => undefined });
  supervisor = children;
  children.addParked({ name: "executor-0", command: process.execPath, args: ["-e", "process.exit(3)"] });
  const operator = keeperOf({ supervisor, logs: new ProcessLog(), roleOf: () => "executor" });
  const order = (what: "drain" | "undrain" | "restart") => operator.perform(what, "executor-0", PROCESS_TIMES);
  const held = (): unknown => children.list().map((state) => [state.held, state.order]);
  await expect(order("undrain")).rejects.toThrow("ended before it was ready");
  expect(held()).toEqual([[undefined, undefined]]);
  await order("drain");
  expect(held()).toEqual([["down", undefined]]);
  for (const what of ["undrain", "restart"] as const) {
    await expect(order(what)).rejects.toThrow("ended before it was ready");
    expect(held()).toEqual([["down", undefined]]);
  }
  await order("drain");
}, 60_000);

test("the bounds hold whatever the advice is, and an operator's word stands (AS1)", () => {
  const list = fc.array(fc.constantFrom<ChildState["state"]>("ready", "starting", "parked", "waiting", "given-up"), {
    minLength: 1,
    maxLength: 8,
  });
  fc.assert(
    fc.property(
      list,
      fc.integer({ min: -3, max: 20 }),
      fc.integer({ min: 1, max: 8 }),
      fc.array(fc.constantFrom<Hold>("down", "up", undefined), { minLength: 8, maxLength: 8 }),
      (given, wanted, least, holds) => {
        const min = Math.min(least, given.length);
        const held = states(...given).map((state, i) => ({ ...state, held: holds[i] }));
        const holdOf = (name: string): Hold => holds[Number(name.at(-1))];
        const { start, drain } = stepTowards(wanted, held, {
          ...{ min, mayStart, isBusy: false },
          isSpare: (name) => Number(name.at(-1)) % 2 === 0,
        });
        const up = given.filter((state) => ["ready", "starting", "waiting"].includes(state)).length;
        expect(up + start.length).toBeLessThanOrEqual(Math.max(up, given.length));
        if (drain !== undefined)
          expect([up - 1 >= min, Number(drain.at(-1)) % 2, holdOf(drain) === "up"]).toEqual([true, 0, false]);
        for (const name of start) expect(holdOf(name)).not.toBe("down");
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

test("what an operator drains stays down, and what one brings back against the advice stays up (AS1)", async () => {
  const children = new HeardSupervisor({
    onReady: (name) => `ready ${name}`,
    onLine: () => undefined,
    onExit: () => undefined,
  });
  supervisor = children.supervisor;
  const names = ["executor-0", "executor-1", "executor-2"];
  for (const name of names) {
    const spec = { name, command: process.execPath, args: ["-e", LIVES] };
    if (name === "executor-0") supervisor.start(spec);
    else supervisor.addParked(spec);
  }
  const said: string[] = [];
  let hear: () => void = () => undefined;
  const scaler = new Autoscaler({
    ...{ supervisor, names, min: 1, gpusEach: 1 },
    say: (event, _, { name }) => {
      said.push(`${event} ${String(name)}`);
      hear();
    },
  });
  const until = async (event: string): Promise<void> => {
    while (!said.includes(event)) await new Promise<void>((resolve) => (hear = resolve));
    said.length = 0;
  };
  const nothingFollows = (wanted: number): void => {
    scaler.hear(advice(wanted, 0));
    expect(said).toEqual([]);
  };
  const operator = keeperOf({ supervisor, logs: new ProcessLog(), roleOf: () => "executor" });
  const order = (what: "drain" | "undrain" | "restart", name: string) => operator.perform(what, name, PROCESS_TIMES);
  await children.until(() => children.told.includes("ready executor-0"));
  // Down, though the autoscaler had parked it before.
  await order("drain", "executor-1");
  scaler.hear(advice(1, 1));
  await until("scaled executor-2");
  nothingFollows(3);
  scaler.hear(advice(1, 0));
  await until("scaled executor-2");
  // Undraining one's own drain gives it back to the autoscaler, and so does a restart.
  for (const back of ["undrain", "restart"] as const) {
    await order(back, "executor-1");
    scaler.hear(advice(1, 0));
    await until("scaled executor-1");
    await order("drain", "executor-1");
  }
  // Up: it counts, so that another one goes. Then down, though the advice is three; then free.
  await order("undrain", "executor-2");
  scaler.hear(advice(1, 0));
  await until("scaled executor-0");
  nothingFollows(1);
  await order("restart", "executor-2");
  nothingFollows(1);
  await order("drain", "executor-2");
  scaler.hear(advice(1, 2));
  await until("scaled executor-0");
  nothingFollows(3);
  await order("undrain", "executor-2");
  scaler.hear(advice(1, 0));
  await until("scaled executor-2");
  scaler.close();
}, 60_000);
