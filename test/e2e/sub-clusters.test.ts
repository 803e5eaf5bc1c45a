/**
 * Two sub-clusters on a NATS server with every role's own permissions. Models that don't fit into one accelerator's
 * memory together are served side by side.
 */
import { dirname } from "node:path";
import { type NatsConnection, usersOf } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { BUCKET, ExecutorInventory, Heartbeat, PLACEMENT_KEY, type Placement, subjectsOf } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import { FrameReader, fromJson } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type NatsFixture, startNats } from "../fixtures/nats.ts";
import { type ActorsOnNats, startActorsOnNats } from "./actors-on-nats.ts";
import { SteadyLoad } from "./steady-load.ts";

const MB = 1e6;
const MODELS = ["left", "right"];
const SLO_MS = 2_000;
/** Allowed outcomes. Refusals for lack of time depend on the machine; test/cluster checks them in virtual time. */
const ANSWERS = new Set(["ok", "TUTTI_OVERLOADED", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_DEADLINE_EXCEEDED"]);
let nats: NatsFixture;
let actors: ActorsOnNats;
let client: Tutti;
let planner: NatsConnection;
/** Sub-cluster of each leading ranker. */
const leaders = new Map<number, string>();
const inventories = new Map<number, ExecutorInventory>();

beforeAll(async () => {
  nats = await startNats({ users: usersOf({ cluster: "main", apps: [] }), withLocalUser: true });
  planner = await nats.connect("planner");
  const reader = new FrameReader()
    .on(ExecutorInventory, (inventory) => void inventories.set(inventory.executor, inventory))
    .on(Heartbeat, ({ key, role, epoch = 0, subCluster, leaving }) => {
      if (role !== "ranker") return;
      if (leaving || epoch === 0) leaders.delete(key);
      else leaders.set(key, subCluster ?? "");
    });
  for (const subject of [subjectsOf("main").role("planner"), subjectsOf("main").beat("ranker")])
    planner.control.subscribe(subject, ({ payload }) => void reader.read(payload));
  actors = await startActorsOnNats(
    { servers: nats.url, creds: dirname(nats.credentials["admin"]!) },
    {
      ...{ sloMs: SLO_MS, subClusters: ["main", "s1"], executors: [[0], [1]], models: MODELS },
      memory: { ofGpu: 100 * MB, ofModel: 60 * MB },
    },
  );
  client = await connect({ servers: nats.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await actors?.stop();
  await nats?.stop();
});

/** The placement, as soon as every model is in it. */
const placement = (): Promise<Placement> =>
  new Promise((resolve) => {
    const watch = planner.store.watch(BUCKET.plan, PLACEMENT_KEY, {
      onEntry: ({ value }) => {
        const placed = fromJson(value) as Placement;
        if (placed.models.length < MODELS.length) return;
        watch.stop();
        resolve(placed);
      },
      onDelete: () => undefined,
      onReady: () => undefined,
      onFailure: () => undefined,
    });
  });

/**
 * Waits for the first answers, whatever refusals come before. A model that did not fit where everything was at first is
 * tried again where it is placed.
 */
async function served(): Promise<void> {
  const loads = MODELS.map((model) => new SteadyLoad(client, { model, perSecond: 10, sloMs: SLO_MS }));
  for (const load of loads) load.start();
  for (const load of loads) await load.until("ok", 0, 20_000, 3);
  for (const load of loads) await load.stop();
}

test("each model has a sub-cluster of its own, whose accelerator has it and no other", async () => {
  const { models, gpus } = await placement();
  expect(models.map(({ subCluster }) => subCluster).sort()).toEqual(["main", "s1"]);
  expect(gpus.map(({ subCluster }) => subCluster).sort()).toEqual(["main", "s1"]);
  await served();
  const loaded = [...inventories.values()].map(({ subCluster, memoryBytes, models: here }) => ({
    isPlaced: here.every(({ number }) => models.find((one) => one.number === number)?.subCluster === subCluster),
    memoryBytes,
  }));
  expect(loaded).toEqual([
    { isPlaced: true, memoryBytes: 60 * MB },
    { isPlaced: true, memoryBytes: 60 * MB },
  ]);
});

test("the leader of one sub-cluster leaves under load: its spare takes over, and every request of either is answered", async () => {
  const loads = MODELS.map((model) => new SteadyLoad(client, { model, perSecond: 20, sloMs: SLO_MS }));
  for (const load of loads) load.start();
  for (const load of loads) await load.until("ok", 0, 20_000, 20);
  const [key] = [...leaders].find(([, subCluster]) => subCluster === "s1")!;
  const leader = actors.actors.find((actor) => actor.key === actorKey(key))!;
  const leftAt = performance.now();
  await new Promise<void>((done) => leader.drain(done));
  for (const load of loads) await load.until("ok", leftAt, 20_000, 40);
  const settled = (await Promise.all(loads.map((load) => load.stop()))).flat();
  expect(settled.filter(({ status }) => !ANSWERS.has(status))).toEqual([]);
  expect([...leaders.values()].sort()).toEqual(["main", "s1"]);
  expect(leaders.has(key)).toBe(false);
});
