/**
 * Executors with real ONNX models that are killed, abort in mid-run, or hang. Their batches run elsewhere, and a model
 * that ends one executor after the other is quarantined.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync, readlinkSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type Tutti, connect } from "@tutti/client";
import { generateEndless } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SteadyLoad } from "./steady-load.ts";
import { ROOT, TuttiUp, gone } from "./tutti-up.ts";

const WIDTH = 16;
let folder: string;
let up: TuttiUp;
let client: Tutti;
/** Steps of the loop that take about a second on one core of this machine, now. */
let second: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-loss-"));
  const config = "slo: 2s, max_batch_size: 4, patience: 0";
  // The same file three times: its behaviour depends on its input.
  for (const [name, more] of [
    ["quick", ""],
    ["long", ", run_deadline: 60s"],
    ["stuck", ", run_deadline: 400ms"],
  ] as const) {
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "1/model.onnx"), generateEndless({ width: WIDTH }));
    await writeFile(join(folder, name, "config.yaml"), `{ ${config}${more} }`);
  }
  up = await TuttiUp.start(["--no-demo", "--models", folder, "--executors", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
  const started = performance.now();
  await ask("long", 20_000);
  second = Math.round((20_000 * 1_000) / Math.max(1, performance.now() - started - 5));
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** A row for so many steps of the loop; 1e18 steps never end. */
const rowOf = (steps: number): number[] => [steps, ...Array.from({ length: WIDTH - 1 }, () => 0.5)];
const ask = (model: string, steps: number, slo = "20s"): Promise<unknown> =>
  client.infer(model, { x: [rowOf(steps)] }, { slo });

/** Asks until there is an answer: executors come back one after the other. */
async function askUntilAnswered(model: string): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const failure = await ask(model, 0, "2s").then(
      () => undefined,
      (error: Error & { retryable?: boolean }) => error,
    );
    if (failure === undefined) return;
    if (failure.retryable === false) throw failure;
    await wait(50);
  }
  throw new Error(`${model} is not answered`);
}

/** Process id of the executor that runs a model now, from its note. */
async function executorThatRuns(model: string): Promise<number> {
  const notes = join(up.runDirectory, new URL(up.url).port, "executors");
  for (;;) {
    for (const name of readdirSync(notes).filter((entry) => entry.endsWith(".run"))) {
      const text = readFileSync(join(notes, name), "utf8");
      if (text.startsWith("{") && (JSON.parse(text) as { model: string }).model === model)
        return Number(name.split(".").at(-2));
    }
    await wait(2); // a file that is written makes no event here
  }
}
async function listed(name: string): Promise<{ state: string; reason: string }> {
  const { stdout } = await up.command("models", "--json");
  return (JSON.parse(stdout) as { name: string; state: string; reason: string }[]).find((one) => one.name === name)!;
}

test.each([
  ["is killed, as for lack of memory,", "SIGKILL"],
  ["aborts", "SIGABRT"],
  ["crashes in native code", "SIGSEGV"],
] as const)("an executor that %s in mid-run loses no request, ends no node, and starts again", async (_, signal) => {
  const after = up.events.length;
  const node = up.pidOf("node");
  const load = new SteadyLoad(client, { model: "quick", perSecond: 20, sloMs: 15_000, row: rowOf(0) });
  load.start();
  await load.until("ok", 0, 20_000, 5);
  const answer = ask("long", second);
  const pid = await executorThatRuns("long");
  await wait(50);
  process.kill(pid, signal);
  expect(await answer).toBeDefined();
  expect(await up.next("child-exit", ({ how }) => how === signal, after)).toMatchObject({
    name: expect.stringMatching(/^executor-/),
  });
  await up.next("child-ready", ({ name }) => String(name).startsWith("executor-"), after);
  expect(await listed("long")).toMatchObject({ state: "ready" });
  await load.stop();
  expect(JSON.parse(load.summary())).toEqual({ ok: load.settled.length });
  expect(up.pidOf("node")).toBe(node);
  const ended = up.events.slice(after).filter(({ event }) => event === "child-exit");
  expect(ended.map(({ name, how }) => [String(name).replace(/\d+$/, ""), how])).toEqual([["executor-", signal]]);
});

test("a model that hangs in three runs is quarantined with the reason; others go on, and it can be released", async () => {
  await Promise.all(["quick", "long", "stuck"].map(askUntilAnswered));
  const before = up.events.length;
  const refusal = (await ask("stuck", 1e18, "60s").catch((error: unknown) => error)) as Error & { code: string };
  // The processes' events show where it hangs, if it does.
  const happened = JSON.stringify(up.events.slice(before).filter(({ event }) => event !== "status"));
  expect(refusal, happened).toMatchObject({ code: "TUTTI_NOT_READY", retryable: false });
  expect(refusal.message).toMatch(/"stuck" is quarantined: it ended its executor 3 times in a row .*hung in a run/);
  expect(await listed("stuck")).toMatchObject({ state: "quarantined", reason: expect.stringContaining("--release") });
  await askUntilAnswered("quick");
  const started = performance.now();
  await expect(ask("stuck", 0)).rejects.toMatchObject({ code: "TUTTI_NOT_READY" });
  expect(performance.now() - started).toBeLessThan(5_000); // of its 20 s of SLO
  const { stderr } = await up.command("models");
  expect(stderr).toBe("");

  expect(await up.command("models", "--release", "quick")).toMatchObject({ code: 1 });
  expect(await up.command("models", "--release", "stuck")).toMatchObject({ code: 0 });
  await askUntilAnswered("stuck");
});

test("an executor under `tutti run` ends with it, also when that is killed", async () => {
  const main = join(ROOT, "packages/cli/src/main.ts");
  const creds = join(up.runDirectory, new URL(up.url).port, "creds/executor.nk");
  const flags = ["--nats", up.url, "--creds", creds, "--engine", "emulated", "--gpus", "9", "--state", folder];
  const run = spawn(process.execPath, [main, "run", "executor", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  await up.next("status", ({ gpus }) => (gpus as { gpu: number }[]).some(({ gpu }) => gpu === 9));
  const children = readFileSync(`/proc/${run.pid}/task/${run.pid}/children`, "utf8").trim().split(" ").map(Number);
  expect(children).toHaveLength(1);
  // A relative path of the model would lead into this folder, which is empty.
  expect(readlinkSync(`/proc/${children[0]}/cwd`)).toBe(join(folder, "empty"));
  expect(readdirSync(join(folder, "empty"))).toEqual([]);
  run.kill("SIGKILL");
  await once(run, "exit");
  await gone(children, 20_000);
});
