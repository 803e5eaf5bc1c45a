/** Three NATS servers: any one of them may be lost under load, and come back. */
import { type NatsConnection, type NatsServer, usersOf } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { BUCKET, StatsReported, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type NatsClusterFixture, type StreamInfo, startNatsCluster, wholeStream } from "../fixtures/nats-cluster.ts";
import { type ActorsOnNats, startActorsOnNats } from "./actors-on-nats.ts";
import { SteadyLoad } from "./steady-load.ts";

/** A long SLO, so that a busy machine refuses nothing of so small a load. */
const SLO_MS = 1_000;
const ANSWERS = ["ok", "TUTTI_UNAVAILABLE", "TUTTI_DEADLINE_EXCEEDED", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_OVERLOADED"];
let cluster: NatsClusterFixture;
let actors: ActorsOnNats;
let client: Tutti;
let operator: NatsConnection;
const figures = new Map<number, StatsReported>();

beforeAll(async () => {
  cluster = await startNatsCluster(usersOf({ cluster: "main", apps: [] }));
  actors = await startActorsOnNats({ servers: cluster.urls, creds: cluster.creds }, { sloMs: SLO_MS });
  client = await connect({ servers: cluster.urls.split(","), app: "e2e" });
  operator = await cluster.connect("admin");
  const reader = new FrameReader().on(StatsReported, (stats) => void figures.set(stats.key, stats));
  operator.control.subscribe(subjectsOf("main").stats("*"), ({ payload }) => void reader.read(payload));
});
afterAll(async () => {
  await client?.close();
  await operator?.close();
  await actors?.stop();
  await cluster?.stop();
});

const whole = (bucket: string): Promise<StreamInfo> => wholeStream(operator.control, bucket);

/** The leading rankers, from each ranker's reports after this moment. */
async function leaders(): Promise<{ key: number; epoch: number }[]> {
  const asked = (performance.timeOrigin + performance.now()) * 1_000;
  for (;;) {
    const rankers = [...figures.values()].filter(({ role, at }) => role === "ranker" && at > asked);
    if (rankers.length >= 2)
      return rankers
        .map((one) => ({ key: one.key, epoch: one.figures["epoch"] ?? 0 }))
        .filter(({ epoch }) => epoch > 0);
    await new Promise((resolve) => setTimeout(resolve, 20)); // figures come once a second
  }
}

const named = (name: string): NatsServer => cluster.servers[Number(name.slice(1))]!;

test("buckets are kept three times in a cluster", async () => {
  for (const bucket of [BUCKET.leases, BUCKET.models, BUCKET.profiles])
    expect((await whole(bucket)).config.num_replicas).toBe(3);
});

test("any one of three NATS servers may be lost under load: every request is answered, service resumes, one ranker leads", async () => {
  const load = new SteadyLoad(client, { model: "quick", perSecond: 40, sloMs: SLO_MS });
  load.start();
  await load.until("ok", 0, 20_000, 50);
  const lost = new Set<string>();
  const served: string[] = [];
  let epoch = 0;
  const loseOne = async (name: string): Promise<void> => {
    lost.add(name);
    const startMs = performance.now();
    await load.until("ok", startMs + 2 * SLO_MS, 10_000);
    const lostMs = performance.now();
    await named(name).kill();
    const [first] = await load.until("ok", lostMs + 1, 10_000);
    await load.until("ok", lostMs + 1_000, 10_000, 20);
    const [leader, ...others] = await leaders();
    expect(others).toEqual([]);
    expect(leader!.epoch).toBeGreaterThanOrEqual(epoch);
    epoch = leader!.epoch;
    served.push(`${name}: served ${(first!.settledMs - lostMs).toFixed(0)} ms after; ${load.summary(lostMs)}`);
    expect(first!.settledMs - lostMs).toBeLessThan(1_000);
    // The share is as high as before: a busy machine refuses some requests at any time.
    expect(load.okShare(lostMs + 1_000, Infinity)).toBeGreaterThanOrEqual(0.9 * load.okShare(startMs, lostMs - SLO_MS));
    await named(name).restart();
  };
  // The leader of the stream of leases goes first: for seconds no lease can be written.
  await loseOne((await whole(BUCKET.leases)).cluster.leader!);
  for (const name of ["n0", "n1", "n2"]) {
    if (lost.has(name)) continue;
    await whole(BUCKET.leases);
    await loseOne(name);
  }
  const settled = await load.stop();
  process.stdout.write(`${served.join("\n")}\n`);
  expect(load.late()).toEqual([]);
  expect(settled.filter(({ status }) => !ANSWERS.includes(status))).toEqual([]);
});
