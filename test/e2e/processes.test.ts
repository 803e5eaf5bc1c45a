/**
 * `tutti up` as a group of processes: dead ones are started again, and in the end none is left. Models are emulated, so
 * that starts are quick.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { generateAddOne } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp, type UpEvent, commandOf, gone, tutti } from "./tutti-up.ts";

let folder: string;
let emulate: string[];
/** The cluster that most tests share: starting ten processes takes seconds. */
let shared: TuttiUp;
/** A cluster beside it, on a port of its own. */
let second: TuttiUp;
/** A cluster with a model that is run. */
let real: TuttiUp;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-profiles-"));
  const path = join(folder, "profiles.yaml");
  await writeFile(path, "models: [{ name: quick, sloMs: 500, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n");
  emulate = ["--emulate", path, "--gpus", "2"];
  shared = await TuttiUp.start(["--layout", "spread", ...emulate]);
});
afterAll(async () => {
  for (const up of [second, real, shared]) await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const ask = (client: Tutti): Promise<unknown> => client.infer("quick", { x: [[1]] });

/** Asks until there is an answer: requests lost while a process was gone are retryable. */
async function askUntilAnswered(client: Tutti): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      await ask(client);
      return;
    } catch (error) {
      if (!(error as { retryable?: boolean }).retryable) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100)); // as `retryAfterMs` asks a client to
    }
  }
  throw new Error("no answer after 100 attempts");
}

test("commands find a cluster that is still starting, and say so where nobody writes anything", async () => {
  const starting = await TuttiUp.start(["--layout", "spread", ...emulate], undefined, "child-ready");
  try {
    expect(starting.events.map(({ event }) => event)).not.toContain("ready");
    const { code, stderr } = await starting.command("logs", "ranker-0", "--since", "1ms");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "ranker-0 wrote nothing in the last 1ms; a longer --since goes further back\n",
    });
  } finally {
    await starting.stop();
  }
});

test.each(["executor-0", "batcher", "ranker-0", "ranker-1", "ingress", "profiler", "planner", "gateway", "jobs"])(
  "%s is started again when it is killed, and requests are answered",
  async (name) => {
    const client = await connect({ servers: shared.url, app: "e2e" });
    await askUntilAnswered(client);
    const after = shared.events.length;
    process.kill(shared.pidOf(name), "SIGKILL");
    expect(await shared.next("child-exit", (event) => event["name"] === name, after)).toMatchObject({ how: "SIGKILL" });
    await shared.next("child-ready", (event) => event["name"] === name, after);
    await askUntilAnswered(client);
    await client.close();
  },
);

test("two run at once on one machine, each on its own port, and the second shell finds the later one", async () => {
  const first = shared;
  second = await TuttiUp.start(emulate, first.runDirectory);
  expect(second.url).not.toBe(first.url);
  for (const { url } of [first, second]) {
    const { code, stdout } = await first.command("infer", "quick", "--nats", url, "--json");
    expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ model: "quick" })]);
  }
  const { stdout } = await first.command("actors", "--json");
  const { pid } = (JSON.parse(stdout) as { role: string; pid: number }[]).find(({ role }) => role === "batcher")!;
  expect(second.processes()).toContain(pid);
});

test("when tutti up itself is killed, its processes and its server end by themselves", async () => {
  const processes = second.processes();
  second.signal("SIGKILL");
  await second.ended();
  await gone(processes, 20_000);
});

test("--once-ready runs a command against the cluster, stops it, and ends with the command's exit code", async () => {
  const runDirectory = await mkdtemp(join(tmpdir(), "tutti-e2e-once-"));
  const env = { ...process.env, TUTTI_RUN_DIR: runDirectory };
  const command = 'test -n "$TUTTI_NATS" && test -r "$TUTTI_CREDS" && exit 7';
  const { code } = await tutti(["up", "--json", "--port", "0", ...emulate, "--once-ready", command], env);
  expect(code).toBe(7);
  await rm(runDirectory, { recursive: true });
});

test("who is stopped while starting ends as soon as everything has stopped", { timeout: 30_000 }, async () => {
  const up = await TuttiUp.start(emulate, undefined, "child-ready");
  const processes = up.processes();
  up.signal("SIGINT");
  expect(await up.ended()).toBe(0); // it ends at once, and not a minute later, when all should have been ready
  expect(up.events.at(-1)).toMatchObject({ event: "stopped" });
  await gone(processes, 5_000);
  await rm(up.runDirectory, { recursive: true });
});

test("flags and files that make no sense end at once with what to do, before anything is started", async () => {
  const bad: [string[], number, RegExp][] = [
    [["up", "--policy", "lazy"], 2, /--policy lazy: take adaptive/],
    [["up", "--emulate", "/nowhere.yaml"], 1, /--emulate \/nowhere.yaml/],
    [["up", "--models", "/nowhere"], 1, /--models \/nowhere/],
    [["up", "--frobnicate"], 2, /unknown option/],
    [["run", "conductor"], 2, /there is no role "conductor"/],
    [["load", "/nowhere.onnx", "--slo", "30ms"], 1, /there is no model file/],
    [["frobnicate"], 2, /unknown command/],
  ];
  for (const [args, code, text] of bad) {
    const result = await tutti(args);
    expect([args, result.code, result.stdout + result.stderr]).toEqual([args, code, expect.stringMatching(text)]);
  }
});

test("a role runs alone against a server that is named, and joins the cluster there", async () => {
  const credentials = join(shared.runDirectory, new URL(shared.url).port, "creds/executor.nk");
  const after = shared.events.length;
  const flags = ["--nats", shared.url, "--creds", credentials, "--engine", "emulated", "--gpus", "7"];
  const alone = tutti(["run", "executor", ...flags]);
  const isThere = ({ gpus }: UpEvent): boolean => (gpus as { gpu: number }[]).some(({ gpu }) => gpu === 7);
  await shared.next("status", isThere, after);
  const { stdout } = await shared.command("actors", "--json");
  const actors = JSON.parse(stdout) as { pid: number; gpus: number[] }[];
  const { pid } = actors.find(({ gpus }) => gpus.includes(7))!;
  process.kill(pid, "SIGTERM");
  expect(await alone).toMatchObject({ code: 0 });
});

test("the NATS server is started again when it dies, with what it stored, and requests are answered", async () => {
  const client = await connect({ servers: shared.url, app: "e2e" });
  await askUntilAnswered(client);
  const after = shared.events.length;
  process.kill(
    shared.processes().find((pid) => commandOf(pid).includes("nats-server"))!,
    "SIGKILL",
  );
  await shared.next("nats-died", () => true, after);
  await askUntilAnswered(client);
  expect(JSON.parse((await shared.command("models", "--json")).stdout)).toMatchObject([
    { name: "quick", state: "ready" },
  ]);
  await client.close();
});

/** The last test that uses the shared cluster. */
test("SIGTERM stops everything in order, and no process is left", async () => {
  await stopsInOrder(shared, 10, () => shared.signal("SIGTERM"));
});

test("a folder in Triton's layout is served from the start, with its configuration", async () => {
  const repository = join(folder, "repository");
  await mkdir(join(repository, "add/3"), { recursive: true });
  await writeFile(join(repository, "add/3/model.onnx"), generateAddOne());
  await writeFile(join(repository, "add/config.yaml"), "{ slo: 500ms, max_batch_size: 4, patience: 0.2 }");
  real = await TuttiUp.start(["--no-demo", "--models", repository, "--apps", "camera,shop"]);
  const { models } = await real.next("ready");
  expect(models).toMatchObject([{ name: "add", state: "ready", sloUs: 500_000, batchSizeMax: 4 }]);
  const { code, stdout } = await real.command("infer", "add", "--json", "--app", "shop");
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { model: "add", outputs: [{ name: "y", shape: [1, 4] }] }]);
});

test("applications with credentials are the only ones that are taken, each in its own name", async () => {
  await expect(connect({ servers: real.url, app: "camera" })).rejects.toMatchObject({ code: "TUTTI_FORBIDDEN" });
  const credentials = join(real.runDirectory, new URL(real.url).port, "creds/app-camera.nk");
  const camera = await connect({ servers: real.url, app: "camera", credentials });
  const inputs = { x: [[1, 2, 3, 4]] };
  expect((await camera.infer("add", inputs)).outputs["y"]?.data[3]).toBe(5);
  const other = camera.infer("add", inputs, { app: "shop", slo: "300ms" });
  await expect(other).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  await camera.close();
});

test("Ctrl-C stops everything in order, and no process is left", async () => {
  await stopsInOrder(real, 4, () => real.interrupt()); // a node and an executor
});

/** @param least - number of processes, `tutti up` and the server among them */
async function stopsInOrder(up: TuttiUp, least: number, stop: () => void): Promise<void> {
  const processes = up.processes();
  expect(processes.length).toBeGreaterThanOrEqual(least);
  const before = up.events.length;
  stop();
  expect(await up.ended()).toBe(0);
  expect(up.events.at(-1)).toMatchObject({ event: "stopped" });
  expect(up.events.filter(({ event }) => event === "killed")).toEqual([]);
  expect(up.events.slice(before).filter(({ event }) => event === "nats-died")).toEqual([]);
  await gone(processes, 5_000);
  const { code, stderr } = await up.command("models");
  expect([code, stderr]).toEqual([3, expect.stringContaining("no cluster runs on this machine")]);
  await rm(up.runDirectory, { recursive: true });
}
