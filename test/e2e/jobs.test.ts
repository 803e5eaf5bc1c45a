/**
 * Background jobs while every part that carries them is killed: the node with the job runner, executors, and the NATS
 * server. None is lost, and each result is that of its id.
 */
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type SubmittedJob, type Tutti, TuttiError, connect } from "@tutti/client";
import { readNpy } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp, commandOf } from "./tutti-up.ts";

const JOBS = 1_000;
const BURST = 64;
let folder: string;
let up: TuttiUp;
let client: Tutti;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-jobs-"));
  const path = join(folder, "profiles.yaml");
  // Each of two accelerators takes 16 jobs in 160 ms: a thousand take some seconds, in which everything dies.
  await writeFile(path, "models: [{ name: slow, sloMs: 1000, batchMax: 16, alphaMs: 5, betaMs: 80 }]\n");
  up = await TuttiUp.start(["--nodes", "2", "--executors", "2", "--emulate", path, "--gpus", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const nats = (): number => up.processes().find((pid) => commandOf(pid).includes("nats-server"))!;
const idOf = (i: number): string => `job-${i}`;
const inputOf = (i: number): Record<string, number[][]> => ({ x: [[i]] });

/** Submits until the queue has taken the job: the id makes a second submission the same job. */
async function submit(i: number): Promise<SubmittedJob> {
  for (;;) {
    try {
      return await client.submit("slow", inputOf(i), { id: idOf(i), deadline: "30m" });
    } catch (error) {
      if (!(error instanceof TuttiError && error.retryable)) throw error;
      await wait(100);
    }
  }
}

test(`of ${JOBS} jobs none is lost and each has its own answer, whichever part is killed`, async () => {
  const jobs: SubmittedJob[] = [];
  const settled: { id: string; value: unknown }[] = [];
  const failed: unknown[] = [];
  const take = (job: SubmittedJob): Promise<void> =>
    job.result().then(
      ({ outputs }) => void settled.push({ id: job.id, value: outputs }),
      (error: unknown) => void failed.push(error),
    );
  const results: Promise<void>[] = [];
  for (let first = 0; first < JOBS; first += BURST) {
    const some = await Promise.all(Array.from({ length: Math.min(BURST, JOBS - first) }, (_, k) => submit(first + k)));
    jobs.push(...some);
    results.push(...some.map(take));
  }
  const done = Promise.all(results);
  let isOver = false;
  void done.then(() => (isOver = true));
  // One part after the other, each when jobs are answered again after the last one.
  const strikes = ["node-0", "executor-0", "nats", "node-1", "executor-1", "nats", "node-0"];
  const struck: string[] = [];
  for (const part of strikes) {
    const before = settled.length;
    while (!isOver && settled.length < before + BURST) await wait(20);
    if (isOver) break;
    process.kill(part === "nats" ? nats() : up.pidOf(part), "SIGKILL");
    struck.push(`${part} at ${settled.length}`);
  }
  await done;
  process.stdout.write(`${JOBS} jobs; killed ${struck.join(", ")}; ${failed.length} failed\n`);
  expect(failed).toEqual([]);
  expect(new Set(settled.map(({ id }) => id)).size).toBe(JOBS);
  expect(struck.length).toBeGreaterThanOrEqual(5);
  // Everything left the queue, nothing is among the dead letters, and results are those of their ids.
  await expect
    .poll(async () => JSON.parse((await up.command("jobs", "--json")).stdout), { timeout: 60_000 })
    .toMatchObject({
      models: [],
    });
  const again = await client.job("slow", idOf(7)).result();
  expect(again.outputs).toEqual(settled.find(({ id }) => id === idOf(7))!.value);
}, 300_000);

test("a folder is submitted, its results are written once, and what was given up can be seen and tried again", async () => {
  const [from, out] = [join(folder, "in"), join(folder, "out")];
  await mkdir(from);
  for (let i = 0; i < 20; i++) await writeFile(join(from, `${i}.json`), JSON.stringify({ x: [10_000 + i] }));
  await writeFile(join(from, "wide.json"), JSON.stringify({ x: [1, 2, 3] })); // the model takes one number
  const submit = (...more: string[]) =>
    up.command("jobs", "submit", from, "--model", "slow", "--out", out, "--json", ...more);

  const detached = await submit("--detach");
  expect(detached).toMatchObject({ code: 0 });
  expect(JSON.parse(detached.stdout)).toEqual({ files: 21, submitted: 21, found: 0, done: 0, failures: [] });
  const first = await submit();
  expect(first.code).toBe(1);
  const { done, failures } = JSON.parse(first.stdout) as { done: number; failures: { path: string; code: string }[] };
  expect(done).toBe(20);
  expect(failures).toMatchObject([{ path: join(from, "wide.json"), code: "TUTTI_INVALID_INPUT" }]);
  expect((await readdir(out)).length).toBe(20);
  const result = JSON.parse(await readFile(join(out, "7.json.json"), "utf8")) as { outputs: { name: string }[] };
  expect(result.outputs.map(({ name }) => name)).toEqual(["y"]);
  expect(JSON.parse((await submit()).stdout)).toMatchObject({ found: 20, done: 0, submitted: 1 });
  // In another form the results are read again, and no job runs again.
  expect(JSON.parse((await submit("--format", "npy")).stdout)).toMatchObject({ found: 0, done: 20 });
  const { type, data } = readNpy(await readFile(join(out, "7.json.y.npy")), { name: "y" });
  expect([type, data.byteLength > 0]).toEqual(["FP32", true]);

  const letters = async (...more: string[]): Promise<{ code: string; model: string; reason: string }[]> =>
    (JSON.parse((await up.command("jobs", "dead", "--json", ...more)).stdout) as { dead: never[] }).dead;
  expect(await letters("--model", "other")).toEqual([]);
  // Each submission tried it again.
  const dead = await letters();
  expect(dead.length).toBeGreaterThan(1);
  for (const letter of dead) expect(letter).toMatchObject({ code: "TUTTI_INVALID_INPUT", model: "slow" });
  expect(await letters("--requeue")).toMatchObject([{ model: "slow" }]); // one job, of which the last letter counts
  await expect.poll(() => letters(), { timeout: 60_000, interval: 1_000 }).toMatchObject([{ model: "slow" }]);
  const table = await up.command("jobs");
  expect(table).toMatchObject({ code: 0, stderr: "" });
  expect(table.stdout).toMatch(/slow +0 +0 .* 1\n/);
  expect(await letters("--remove", "--id", "other")).toEqual([]);
  expect((await letters("--remove")).length).toBe(1);
  expect(await letters()).toEqual([]);
}, 300_000);

test("what can't be a submission is one line that says why, and nothing is submitted", async () => {
  const list = join(folder, "list.txt");
  await writeFile(list, "in/absent.json\n");
  const submit = (...args: string[]) => up.command("jobs", "submit", ...args, "--out", join(folder, "none"));
  for (const [args, code, why] of [
    [[list, "--model", "slow"], 1, "list.txt:1: there is no file"],
    [[join(folder, "in"), "--model", "nobody"], 1, 'no model named "nobody" is loaded'],
    [[join(folder, "in"), "--model", "slow", "--deadline", "400h"], 2, "at most 7 days"],
    [[join(folder, "absent"), "--model", "slow"], 1, "absent"],
  ] as const) {
    const said = await submit(...args);
    expect(said.code, said.stderr).toBe(code);
    expect(said.stderr).toContain(why);
    expect(said.stderr.trim().split("\n").length).toBe(1);
  }
}, 120_000);
