/** Batchers of a real cluster die, are stopped, hang and join under open-loop load (docs/architecture.md, T9). */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LeaseTap } from "./lease-tap.ts";
import { SteadyLoad } from "./steady-load.ts";
import { ROOT, TuttiUp } from "./tutti-up.ts";

const MODELS = ["m1", "m2", "m3", "m4"];
const [RATE, SLO_MS] = [20, 3_000];
/**
 * Bounds, ten times those of a quiet machine, as everywhere: 100 ms there. A process that hangs is noticed by its
 * silence, after 500 ms.
 */
const [KILLED_MS, HUNG_MS] = [1_000, 5_000];
/** A start that takes longer never ends. */
const BACK_MS = 60_000;

let folder: string;
let up: TuttiUp;
let tap: LeaseTap;
let client: Tutti;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-batchers-"));
  const profiles = join(folder, "profiles.yaml");
  const models = MODELS.map((name) => `{ name: ${name}, sloMs: ${SLO_MS}, batchMax: 16, alphaMs: 0.5, betaMs: 3 }`);
  await writeFile(profiles, `models: [${models.join(", ")}]\n`);
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "4", "--batchers", "2"]);
  tap = await LeaseTap.open(up);
  client = await connect({ servers: up.url, app: "batchers" });
});
afterAll(async () => {
  await client?.close();
  await tap?.close();
  await up?.stop();
  await rm(folder, { recursive: true, force: true });
});

/**
 * Puts every model under load during `strike`; each request must have its answer in the end. @returns the outcomes of
 * the requests sent since the load is served
 */
async function underLoad(strike: () => Promise<void>): Promise<string> {
  const loads = MODELS.map((model) => new SteadyLoad(client, { model, perSecond: RATE, sloMs: SLO_MS }));
  for (const load of loads) load.start();
  let servedMs = Infinity;
  try {
    await Promise.all(loads.map((load) => load.until("ok", performance.now(), 10_000, 10)));
    servedMs = performance.now();
    await strike();
    const since = performance.now();
    await Promise.all(loads.map((load) => load.until("ok", since, 10_000, 10)));
  } finally {
    await Promise.all(loads.map((load) => load.stop()));
  }
  const settled = loads.flatMap((load) => load.settled).filter(({ sentMs }) => sentMs >= servedMs);
  return [...new Set(settled.map(({ status }) => status))].toSorted().join();
}
/** No request is lost; those that waited longest may be refused, late as they are. */
const NOT_LOST = /^(TUTTI_DEADLINE_INFEASIBLE,)?(TUTTI_OVERLOADED,)?ok$/;
const isEven = (batchers: number) => (models: ReadonlyMap<number, number>) => {
  const counts = [...models.values()];
  return counts.length === batchers && Math.max(...counts) - Math.min(...counts) <= 1;
};
const holdsNothing = (pid: number) => (models: ReadonlyMap<number, number>) =>
  (models.get(pid) ?? 0) === 0 && (models.get(0) ?? 0) === 0;

/** Waits until the models are spread evenly. */
async function settle(batchers: number): Promise<void> {
  await tap.until(isEven(batchers), BACK_MS);
}

test("a killed batcher's models are another's at once, and go back when it is there again; nothing is lost (T1)", async () => {
  await settle(2);
  const pid = up.pidOf("batcher-0");
  let tookMs = Infinity;
  const ended = await underLoad(async () => {
    process.kill(pid, "SIGKILL");
    tookMs = await tap.until(holdsNothing(pid), 10_000);
    await tap.until((models) => !models.has(pid) || models.get(pid) === 0, BACK_MS);
    await up.next("child-ready", ({ name }) => name === "batcher-0", up.events.length);
    await tap.until((models) => (models.get(up.pidOf("batcher-0")) ?? 0) === 2, BACK_MS);
  });
  expect(ended).toMatch(NOT_LOST);
  expect(tookMs).toBeLessThan(KILLED_MS);
});

test("a batcher that is stopped hands its models on before it goes, and is given its share when it is back; nobody is refused (T9)", async () => {
  const pid = up.pidOf("batcher-1");
  const from = up.events.length;
  const ended = await underLoad(async () => {
    process.kill(pid, "SIGTERM");
    await tap.until(holdsNothing(pid), 10_000);
    await up.next("child-exit", ({ name }) => name === "batcher-1", from);
    await up.next("child-ready", ({ name }) => name === "batcher-1", from);
    await tap.until((models) => (models.get(up.pidOf("batcher-1")) ?? 0) === 2, BACK_MS);
  });
  expect(ended).toBe("ok");
});

test("a batcher that hangs loses its models, does no harm when it wakes, and is given its share again", async () => {
  const pid = up.pidOf("batcher-0");
  let tookMs = Infinity;
  const ended = await underLoad(async () => {
    process.kill(pid, "SIGSTOP");
    tookMs = await tap.until((models) => (models.get(pid) ?? 0) === 0, 10_000);
    process.kill(pid, "SIGCONT");
    await tap.until((models) => models.get(pid) === 2, BACK_MS);
  });
  expect(ended).toMatch(NOT_LOST);
  expect(tookMs).toBeLessThan(HUNG_MS);
});

test("a batcher that joins is given its share, and hands it back when it leaves; nobody is refused (T9)", async () => {
  const creds = join(up.runDirectory, new URL(up.url).port, "creds/batcher.nk");
  const main = join(ROOT, "packages/cli/src/main.ts");
  const ended = await underLoad(async () => {
    const child = spawn(process.execPath, [main, "run", "batcher", "--nats", up.url, "--creds", creds], {
      stdio: "ignore",
    });
    try {
      await tap.until((models) => isEven(3)(models) && [...models.values()].every((count) => count > 0), BACK_MS);
    } finally {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    expect(child.exitCode).toBe(0);
    await settle(2);
  });
  expect(ended).toBe("ok");
});
