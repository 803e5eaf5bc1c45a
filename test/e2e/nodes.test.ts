/** Two nodes on one machine, each a hot standby of the other: either may end at any moment. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SteadyLoad } from "./steady-load.ts";
import { TuttiUp } from "./tutti-up.ts";

const NODES = ["node-0", "node-1"];
const SLO_MS = 2_000;
/** Time for a node to start anew on a machine that may be busy. */
const BACK_MS = 60_000;

let folder: string;
let up: TuttiUp;
let client: Tutti;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-nodes-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, `models: [{ name: echo, sloMs: ${SLO_MS}, batchMax: 8, alphaMs: 1, betaMs: 5 }]\n`);
  up = await TuttiUp.start(["--nodes", "2", "--emulate", profiles, "--gpus", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
}, BACK_MS);
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const httpOf = (name: string): string => {
  const ready = up.events.findLast((event) => event.event === "child-ready" && event["name"] === name);
  return String(ready?.["http"]);
};

const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: [7] }] });
const askOverHttp = (name: string): Promise<Response> =>
  fetch(`${httpOf(name)}/v2/models/echo/infer`, { method: "POST", body, headers: { "tutti-slo": "5s" } });

test("there is one actor of each role in each node, and one ranker leads", async () => {
  const { code, stdout } = await up.command("actors", "--json");
  expect(code).toBe(0);
  const actors = JSON.parse(stdout) as { role: string; process: string }[];
  for (const role of ["ingress", "batcher", "ranker", "profiler", "planner", "gateway", "jobs"])
    expect(
      actors
        .filter((actor) => actor.role === role)
        .map(({ process }) => process)
        .sort(),
    ).toEqual(NODES);
  const status = JSON.parse((await up.command("status", "--json")).stdout) as { rankers: { leads: boolean }[] };
  expect(status.rankers.map(({ leads }) => leads).sort()).toEqual([false, true]);
});

test("both nodes answer over HTTP", async () => {
  const answers = await Promise.all(NODES.map(askOverHttp));
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  for (const answer of answers) {
    const { outputs } = (await answer.json()) as { outputs: { data: number[] }[] };
    expect(outputs[0]?.data).toEqual([7]);
  }
});

test.each(NODES)(
  "when %s is killed under load, what its ingress held is reported, and the rest is answered",
  async (name) => {
    const load = new SteadyLoad(client, { model: "echo", perSecond: 100, sloMs: SLO_MS });
    load.start();
    await load.until("ok", 0, BACK_MS, 100);
    const after = up.events.length;
    process.kill(up.pidOf(name), "SIGKILL");
    const killedMs = performance.now();
    await load.until("ok", killedMs + 2_500, BACK_MS, 100);
    await up.next("child-ready", (event) => event["name"] === name, after);
    const settled = await load.stop(); // rejects where a request hangs
    expect(load.late()).toEqual([]);
    const statuses = new Set(settled.map(({ status }) => status));
    statuses.delete("ok");
    statuses.delete("TUTTI_UNAVAILABLE");
    // While the models move, a deadline may pass.
    statuses.delete("TUTTI_DEADLINE_EXCEEDED");
    expect([...statuses], load.summary()).toEqual([]);
    expect(load.okShare(killedMs + 2_500, killedMs + 3_500), load.summary()).toBe(1);
    const other = NODES.find((node) => node !== name)!;
    expect((await askOverHttp(other)).status).toBe(200);
  },
);

test("restarting both nodes in turn refuses and loses nothing of what goes over NATS (T9)", async () => {
  const load = new SteadyLoad(client, { model: "echo", perSecond: 50, sloMs: SLO_MS });
  load.start();
  await load.until("ok", 0, BACK_MS, 50);
  const { code, stderr } = await up.command("restart", "node");
  expect([code, stderr]).toEqual([0, ""]);
  const settled = await load.stop();
  expect(
    settled.filter(({ status }) => status !== "ok"),
    load.summary(),
  ).toEqual([]);
}, 120_000);
