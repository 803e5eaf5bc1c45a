import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TuttiError } from "@tutti/protocol";
import { type StepCall, type StepOutcome, messageOf, tensorsOf } from "@tutti/ports/steps";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { WorkerSteps, type WorkerStepsOptions } from "./worker-steps.ts";

const folder = join(import.meta.dirname, "fixtures");
const names = ["twice", "sum", "hangs", "dies", "throws", "isWrong", "waits", "waitsUntilGivenUp"];
const message = (value: number): Uint8Array =>
  messageOf({ x: { type: "FP32", dims: [1, 1], data: Float32Array.of(value) } }, "the test");

let steps: WorkerSteps | undefined;
afterEach(() => steps?.close());
async function started(options: Partial<WorkerStepsOptions> = {}): Promise<WorkerSteps> {
  const functions = names.map((name) => `./steps.ts#${name}`);
  return (steps = await WorkerSteps.start({ folder, functions, threads: 1, ...options }));
}
const call = (name: string, value = 1, more: Partial<StepCall> = {}): StepCall => ({
  pipeline: "p",
  function: `./steps.ts#${name}`,
  makes: "requests",
  app: "shop",
  body: { form: "binary", payload: message(value) },
  id: undefined,
  parameters: undefined,
  stages: {},
  kept: {},
  ...more,
});
const run = (one: StepCall): Promise<StepOutcome | TuttiError> =>
  new Promise((resolve) => void steps!.run(one, resolve));
const made = async (one: StepCall): Promise<StepOutcome> => {
  const outcome = await run(one);
  if (outcome instanceof TuttiError) throw outcome;
  return outcome;
};
const valuesOf = ({ messages }: StepOutcome): number[] => messages.map((one) => Number(tensorsOf(one)["x"]!.data[0]));

test("a function runs on a thread, and what it kept comes back to a later one", async () => {
  await started();
  const first = await made(call("twice", 3));
  expect(valuesOf(first)).toEqual([3, 6]);
  expect(first.keep!.bytes).toBeGreaterThan(1000);
  const last = await made(call("sum", 0, { makes: "answer", stages: { a: first.messages }, kept: { a: first.keep! } }));
  expect(valuesOf(last)).toEqual([1009]);
});

test.each([
  ["hangs", /was ended: it took longer than 0.3 s/],
  ["dies", /was ended: its thread ended/],
  ["throws", /failed: boom/],
  ["isWrong", /"x" has 4 bytes of data/],
])("a function that %s refuses its own call, with its name, and the next ones run", async (name, text) => {
  await started(name === "hangs" ? { callMsMax: 300 } : {});
  const [bad, next] = [run(call(name)), run(call("twice", 5))];
  expect(await bad).toMatchObject({ code: "TUTTI_INTERNAL" });
  expect(((await bad) as TuttiError).message).toMatch(text);
  expect(((await bad) as TuttiError).message).toContain(`./steps.ts#${name} of pipeline "p"`);
  expect(valuesOf((await next) as StepOutcome)).toEqual([5, 10]);
});

test("more calls than may wait are refused as overload (T7), and one that was given up calls nobody back", async () => {
  await started({ waitingMax: 2 });
  const outcomes: string[] = [];
  const note = (name: string) => (outcome: StepOutcome | TuttiError) =>
    void outcomes.push(`${name} ${outcome instanceof TuttiError ? outcome.code : "ok"}`);
  steps!.run(call("waits", 50), note("running"));
  const giveUp = steps!.run(call("twice"), note("given up"));
  const last = new Promise<void>((resolve) =>
    steps!.run(call("twice"), (outcome) => (note("waiting")(outcome), resolve())),
  );
  steps!.run(call("twice"), note("one more"));
  giveUp();
  await last;
  expect(outcomes).toEqual(["one more TUTTI_OVERLOADED", "running ok", "waiting ok"]);
});

test("closing refuses what runs and what waits", async () => {
  await started();
  const running = [run(call("waits", 60_000)), run(call("twice"))];
  await steps!.close();
  for (const one of await Promise.all(running)) expect(one).toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

test("what can't be loaded is told at start, with what to do; nothing outside of the folder is", async () => {
  const [outside, inside] = [1, 2].map(() => mkdtempSync(join(tmpdir(), "tutti-steps-"))) as [string, string];
  onTestFinished(() => [outside, inside].forEach((made) => rmSync(made, { recursive: true })));
  writeFileSync(join(outside, "evil.mjs"), "export const f = () => ({});");
  symlinkSync(join(outside, "evil.mjs"), join(inside, "linked.mjs"));
  const start = (functions: string[], where = folder) =>
    WorkerSteps.start({ folder: where, functions, threads: 1 }).then((one) => one.close());
  await expect(start(["./steps.ts#nothing"])).rejects.toThrow("./steps.ts exports no function nothing");
  await expect(start(["./missing.ts#f", "./steps.ts#twice", "./steps.ts#nothing"])).rejects.toMatchObject({
    problems: [{ function: "./missing.ts#f", text: "there is no ./missing.ts" }, { function: "./steps.ts#nothing" }],
  });
  await expect(start(["./linked.mjs#f"], inside)).rejects.toThrow("modules are only loaded from there");
});

test("calls of an application that makes many keep another's waiting for one of them at most", async () => {
  await started();
  const order: string[] = [];
  const ask = async (app: string): Promise<void> => {
    await run(call("twice", 1, { app }));
    order.push(app);
  };
  const flood = Array.from({ length: 20 }, () => ask("flood"));
  await ask("other");
  expect(order.length).toBeLessThanOrEqual(3);
  await Promise.all(flood);
});

test("applications share the threads by time: short calls don't wait behind as many long ones (STEPS-1)", async () => {
  await started();
  const order: string[] = [];
  const ask = async (app: string, ms: number): Promise<void> => {
    await run(call("waits", ms, { app }));
    order.push(app);
  };
  const long = Array.from({ length: 4 }, () => ask("long", 60));
  await Promise.all(Array.from({ length: 6 }, () => ask("short", 1)));
  expect(order.filter((app) => app === "long").length).toBeLessThanOrEqual(2);
  await Promise.all(long);
});

test("calls of one application leave a thread to others, whatever they take (STEPS-2)", async () => {
  await started({ threads: 2 });
  const long = Array.from({ length: 3 }, () => run(call("waits", 60_000, { app: "long" })));
  for (let i = 0; i < 5; i++) expect(valuesOf(await made(call("twice", i, { app: "other" })))).toEqual([i, 2 * i]);
  await steps!.close();
  for (const outcome of await Promise.all(long)) expect(outcome).toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

test("a running call that is given up is told so, and its thread is free once it has ended", async () => {
  await started();
  steps!.run(call("waitsUntilGivenUp"), () => expect.unreachable("nobody waits for it"))();
  expect(valuesOf(await made(call("twice", 2)))).toEqual([2, 4]);
});

test("a call that no thread can be handed is refused at once, and the next one runs", async () => {
  await started();
  const refused = await run(call("twice", 1, { parameters: { notCloneable: () => undefined } }));
  expect((refused as TuttiError).code).toBe("TUTTI_INTERNAL");
  expect(valuesOf(await made(call("twice", 3)))).toEqual([3, 6]);
});
