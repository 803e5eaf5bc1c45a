/**
 * The planner among real processes. Executors start and drain by its advice, `tutti plan --live` and HTTP show it, and
 * requests are served without it when it dies.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { SteadyLoad } from "./steady-load.ts";
import { TuttiUp, type UpEvent } from "./tutti-up.ts";

/**
 * Runs of 200 ms, one request each. So 5 requests a second keep an accelerator busy, and cost the machine next to
 * nothing.
 */
const MODELS = "models: [{ name: slow, sloMs: 3000, batchMax: 1, alphaMs: 200, betaMs: 0 }]\n";
const SLO_MS = 3_000;
const EPOCH_MS = 6_000;
/** Allowed outcomes of a request; any other means that it was lost. */
const ANSWERS = new Set(["ok", "TUTTI_OVERLOADED", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_DEADLINE_EXCEEDED"]);
let folder: string;
let up: TuttiUp;
let client: Tutti;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-planner-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, MODELS);
  up = await TuttiUp.start([
    "--layout",
    "spread",
    "--emulate",
    profiles,
    "--autoscale",
    "1:4",
    "--epoch",
    `${EPOCH_MS}ms`,
  ]);
  client = await connect({ servers: up.url, app: "load" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

function load(perSecond: number): SteadyLoad {
  const started = new SteadyLoad(client, { model: "slow", perSecond, sloMs: SLO_MS });
  loads.push(started);
  started.start();
  return started;
}
const loads: SteadyLoad[] = [];
afterEach(() => Promise.allSettled(loads.splice(0).map((one) => one.stop())));

/** Executors that run, by the events of `tutti up`: one from the start. */
function executors(): number {
  const changes = up.events.filter(({ event }) => event === "scaled");
  return changes.reduce((count, { change }) => count + (change === "start" ? 1 : -1), 1);
}
const scaling = (change: "start" | "drain", fits: (event: UpEvent) => boolean, after = 0): Promise<UpEvent> =>
  up.next("scaling", (event) => event["change"] === change && fits(event), after);
const scaled = (change: "start" | "drain", after: number): Promise<UpEvent> =>
  up.next("scaled", (event) => event["change"] === change, after);

test("executors follow a load that steps up and down within two epochs, and nothing is lost", async () => {
  const low = load(3);
  await low.until("ok", 0, 20_000, 12);
  // They are worth 0.6 accelerators, and the planner leaves room for swings: one or two. On a busy machine the first
  // requests may be late, and more are started for those.
  while (executors() > 2) await scaled("drain", up.events.length);
  const [upAt, risesAfter] = [performance.now(), up.events.length];
  const high = load(9);
  // 12 requests a second are worth 2.4 accelerators. The start time of a process depends on the machine.
  await scaling("start", ({ wanted }) => Number(wanted) >= 3, risesAfter);
  expect(performance.now() - upAt).toBeLessThan(2 * EPOCH_MS);
  while (executors() < 3) await scaled("start", up.events.length);
  // The queues are worked off, and no request is refused for them any more.
  const isCalm = ({ threads, refused, requests }: UpEvent): boolean =>
    refused === 0 && Number(requests) > 6 && (threads as { queued: number }[]).every(({ queued }) => queued === 0);
  await up.next("status", isCalm, up.events.length);
  const settledAt = performance.now();
  await high.until("ok", settledAt, 30_000, 40);
  expect(high.okShare(settledAt, Infinity)).toBeGreaterThan(0.9);
  await high.stop();
  const downAt = performance.now();
  await scaling("drain", ({ wanted }) => Number(wanted) <= 2, up.events.length);
  expect(performance.now() - downAt).toBeLessThan(2 * EPOCH_MS);
  while (executors() > 2) await scaled("drain", up.events.length);
  await low.until("ok", downAt, 20_000, 30);
  // Requests that couldn't be served for lack of executors were refused; those sent while executors were drained were
  // served.
  const settled = [...(await low.stop()), ...high.settled];
  expect(settled.filter(({ status }) => !ANSWERS.has(status))).toEqual([]);
  expect(low.okShare(downAt, Infinity)).toBe(1);
  expect([...low.late(), ...high.late()]).toEqual([]);
});

test("the plan is seen by its command and its advice over HTTP", async () => {
  const { code, stdout } = await up.command("plan", "--live", "--json");
  const plan = JSON.parse(stdout) as {
    epoch: number;
    current: { models: { model: string; subCluster: string }[]; accelerators: unknown[] };
    difference: unknown;
    advice: { gpus: number };
  };
  expect(code).toBe(0);
  expect(plan.epoch).toBeGreaterThan(0);
  expect(plan.current.models).toMatchObject([{ model: "slow", subCluster: "main" }]);
  expect(plan.difference).toEqual({ models: [], accelerators: [] });
  const gateway = up.events.find((event) => event.event === "child-ready" && event["http"] !== undefined);
  const answer = await fetch(`${String(gateway?.["http"])}/scaling`);
  expect(answer.status).toBe(200);
  // Reports come once a second, so a number may have changed.
  const { accelerators, gpus } = (await answer.json()) as { accelerators: number; gpus: number };
  expect([accelerators >= 1, gpus >= 1, plan.advice.gpus >= 1]).toEqual([true, true, true]);
});

test("killing the planner loses no request, and its successor goes on with the plan that stands", async () => {
  interface Plan {
    readonly epoch: number;
    readonly current: { readonly accelerators: readonly unknown[] };
  }
  /** Waits for a plan of exactly the executors that run: one starts or drains some time before it is planned. */
  const epochOfAll = async (): Promise<number> => {
    for (;;) {
      const plan = JSON.parse((await up.command("plan", "--live", "--json")).stdout) as Plan;
      if (plan.current.accelerators.length === executors()) return plan.epoch;
    }
  };
  const steady = load(3);
  await steady.until("ok", 0, 20_000, 3);
  const before = await epochOfAll();
  const after = up.events.length;
  const killedAt = performance.now();
  process.kill(up.pidOf("planner"), "SIGKILL");
  await up.next("child-ready", ({ name }) => name === "planner", after);
  await steady.until("ok", killedAt, 20_000, 15);
  expect((await steady.stop()).filter(({ status }) => status !== "ok")).toEqual([]);
  // The number of executors may follow the load meanwhile, which is a new plan on top of the old one.
  const epoch = await epochOfAll();
  const hasScaled = up.events.slice(after).some(({ event }) => event === "scaled");
  expect(hasScaled ? epoch > before : epoch === before, `epoch ${before}, then ${epoch}`).toBe(true);
});
