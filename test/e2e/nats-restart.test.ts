/**
 * The only NATS server of a cluster dies, or is stopped, under load. It comes back with its store, and service with it.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { StatsReported, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SteadyLoad } from "./steady-load.ts";
import { TuttiUp, commandOf } from "./tutti-up.ts";

/** A long SLO, so that a busy machine refuses nothing of so small a load. */
const SLO_MS = 1_000;
/** Most time from a server's death until it is back, on an idle machine. */
const START_MS = 250;
let folder: string;
let up: TuttiUp;
let client: Tutti;
let operator: NatsConnection;
/** Newest figures of each actor, by its key. */
const figures = new Map<number, StatsReported>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-nats-"));
  const path = join(folder, "profiles.yaml");
  await writeFile(path, "models: [{ name: quick, sloMs: 1000, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n");
  up = await TuttiUp.start(["--nodes", "2", "--policy", "eager", "--emulate", path, "--gpus", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
  const credentials = readCredentials(join(up.runDirectory, new URL(up.url).port, "creds/admin.nk"));
  operator = await connectNats({ servers: up.url, name: "test", credentials });
  const reader = new FrameReader().on(StatsReported, (stats) => void figures.set(stats.key, stats));
  operator.control.subscribe(subjectsOf("main").stats("*"), ({ payload }) => void reader.read(payload));
});
afterAll(async () => {
  await client?.close();
  await operator?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const nats = (): number => up.processes().find((pid) => commandOf(pid).includes("nats-server"))!;
/** The leading rankers, from reports after this moment of the rankers' own clocks. */
async function leaders(): Promise<{ key: number; epoch: number }[]> {
  const asked = performance.timeOrigin * 1_000 + performance.now() * 1_000;
  for (;;) {
    const rankers = [...figures.values()].filter(({ role, at }) => role === "ranker" && at > asked);
    if (rankers.length >= 2)
      return rankers.map(({ key, figures: { epoch = 0 } }) => ({ key, epoch })).filter(({ epoch }) => epoch > 0);
    await new Promise((resolve) => setTimeout(resolve, 20)); // figures come once a second
  }
}

test.each(["SIGKILL", "SIGTERM"] as const)(
  "after %s of the NATS server under load every request is answered, service resumes, and the leader goes on",
  async (signal) => {
    const before = await leaders();
    expect(before.length).toBe(1);
    const load = new SteadyLoad(client, { model: "quick", perSecond: 40, sloMs: SLO_MS });
    load.start();
    await load.until("ok", 0, 20_000, 50);
    await load.until("ok", performance.now() + 2 * SLO_MS, 10_000);
    const seen = up.events.length;
    const struckMs = performance.now();
    process.kill(nats(), signal);
    await up.next("nats-back", () => true, seen);
    const backMs = performance.now();
    const [first] = await load.until("ok", backMs, 10_000);
    await load.until("ok", backMs + 1_000, 10_000, 50);
    const after = await leaders();
    const settled = await load.stop();
    process.stdout.write(
      `${signal}: away for ${(backMs - struckMs).toFixed(0)} ms, served ${(first!.settledMs - backMs).toFixed(0)} ms later; ${load.summary()}\n`,
    );
    // Service is back within a second; on a busy machine within as many times more as the server's own start takes.
    const slowness = Math.max(1, (backMs - struckMs) / START_MS);
    expect(first!.settledMs - backMs).toBeLessThan(1_000 * slowness);
    expect(load.late()).toEqual([]);
    // Each request is answered, or ends with a typed error.
    expect(settled.filter(({ status }) => !ANSWERS.includes(status))).toEqual([]);
    // The share is as high as before: a busy machine refuses some requests at any time.
    expect(load.okShare(backMs + 1_000, Infinity)).toBeGreaterThanOrEqual(0.9 * load.okShare(0, struckMs - SLO_MS));
    // The lease outlives the server: no other ranker took it, and epochs did not start again.
    expect(after).toEqual(before);
    expect(up.events.slice(seen).filter(({ event }) => event === "child-exit")).toEqual([]);
  },
  60_000,
);

const ANSWERS = ["ok", "TUTTI_UNAVAILABLE", "TUTTI_DEADLINE_EXCEEDED", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_OVERLOADED"];
