/** `tutti up -f` and `tutti run … -f`: a file instead of flags. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp, type UpEvent, tutti } from "./tutti-up.ts";

let folder = "";
let up: TuttiUp;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-config-"));
  await writeFile(
    join(folder, "profiles.yaml"),
    "models: [{ name: small, sloMs: 500, batchMax: 4, alphaMs: 1, betaMs: 4 }]\n",
  );
  const options = ["emulate: profiles.yaml # beside this file", "gpus: 2", "executors: 2", "policy: eager", "nodes: 9"];
  await writeFile(join(folder, "tutti.yaml"), `${options.join("\n")}\n`);
  up = await TuttiUp.start(["-f", join(folder, "tutti.yaml"), "--nodes", "1"]);
});
afterAll(async () => {
  await up.stop();
  await rm(folder, { recursive: true });
});

const gpusOf = (event: UpEvent): number[] => (event["gpus"] as { gpu: number }[]).map(({ gpu }) => gpu);

test("`tutti up -f` starts what the file says, with its paths relative to it, and a flag comes first", async () => {
  const names = up.events.filter(({ event }) => event === "child-ready").map(({ name }) => String(name));
  expect(names.toSorted()).toEqual(["executor-0", "executor-1", "node"]);
  const status = await up.next("status", (event) => gpusOf(event).length === 2);
  expect(gpusOf(status).toSorted()).toEqual([0, 1]);
  const { stdout } = await up.command("models", "--json");
  expect((JSON.parse(stdout) as { name: string }[]).map(({ name }) => name)).toEqual(["small"]);
});

test("`tutti run -f` joins the cluster that the file names, with the credentials beside it", async () => {
  const credentials = join(up.runDirectory, new URL(up.url).port, "creds/executor.nk");
  const own = join(up.runDirectory, "executor.yaml");
  const options = [`nats: [${up.url}]`, `creds: ${new URL(up.url).port}/creds/executor.nk`, "engine: emulated"];
  await writeFile(own, `${options.join("\n")}\ngpus: [5-6]\nhttp-port: 1 # of a gateway\n`);
  expect(existsSync(credentials)).toBe(true);
  const after = up.events.length;
  const ended = tutti(["run", "executor", "-f", own, "--gpus", "7"]);
  await up.next("status", (event) => gpusOf(event).includes(7), after);
  const { stdout } = await up.command("actors", "--json");
  const actors = JSON.parse(stdout) as { pid: number; gpus: number[] }[];
  expect(actors.some(({ gpus }) => gpus.includes(5))).toBe(false);
  process.kill(actors.find(({ gpus }) => gpus.includes(7))!.pid, "SIGTERM");
  expect(await ended).toMatchObject({ code: 0 });
});

test("a misspelt key starts nothing: one line says where it is and what is meant", async () => {
  const wrong = join(folder, "wrong.yaml");
  await writeFile(wrong, "emulate: profiles.yaml\nexecutrs: 2\n");
  const runDirectory = join(folder, "run");
  await mkdir(runDirectory);
  const result = await tutti(["up", "-f", wrong], { ...process.env, TUTTI_RUN_DIR: join(runDirectory, "own") });
  expect(result).toEqual({
    ...{ code: 2, stdout: "" },
    stderr: `tutti: ${wrong}:2:1: executrs: unknown key; did you mean "executors"?\n`,
  });
  expect(existsSync(join(runDirectory, "own"))).toBe(false);
});
