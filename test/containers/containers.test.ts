/** Whole clusters of containers from the image, with a load from outside: docs/architecture.md, T1, T2 and T9. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ChaosLoad } from "../e2e/chaos/load.ts";
import type { Strike } from "../e2e/chaos/record.ts";
import { reportText } from "../e2e/chaos/report-text.ts";
import { failuresOf, judge } from "../e2e/chaos/verdict.ts";
import { dockerAnswers } from "../fixtures/nats-container.ts";
import { ContainerCluster, EXECUTORS, NATS, NODES, type Name, buildImages } from "./container-cluster.ts";

const SLO_MS = 2_000;
const PER_SECOND = 40;
/** How long a container is out of reach: longer than any peer's silence is borne. */
const AWAY_MS = 2_500;
/** Longer than a connection bears unanswered pings: clients of a NATS server that is cut off turn to another one. */
const NATS_AWAY_MS = 10_000;
/** Least share in time, and grace for answers, for a machine that may be busy. */
const SHARE_MIN = 0.9;
const GRACE_MS = SLO_MS;
const IMAGE_BYTES_MAX = 300e6;

let cluster: ContainerCluster | undefined;

beforeAll(async () => {
  if (!(await dockerAnswers())) return;
  await buildImages();
  cluster = await ContainerCluster.start();
}, 240_000);
beforeEach((context) => {
  if (cluster === undefined) context.skip("no Docker daemon answers");
});
afterAll(() => cluster?.stop());

/** The result of a program in a container. */
const run = (name: Name, ...command: string[]) => cluster!.container(name).exec(command);

test("the image is small, has no shell, and runs as nobody on a root that it can't write", async () => {
  expect(await cluster!.imageBytes()).toBeLessThan(IMAGE_BYTES_MAX);
  const script = 'try { fs.writeFileSync("/app/x", "") } catch ({ code }) { console.log(process.getuid(), code) }';
  expect((await run("node-0", "/usr/bin/node", "-e", script)).output.trim()).toBe("65534 EROFS");
  expect((await run("node-0", "sh", "-c", "true")).exitCode).not.toBe(0);
  const { exitCode, output } = await run("node-0", "tutti", "status", "--once", "--json");
  expect(exitCode).toBe(0);
  expect(output).toContain("echo-0");
});

test("containers are stopped, killed, paused and cut off under load, and no request is lost, doubled or answered wrongly", async () => {
  const struck = cluster!;
  const load = new ChaosLoad(struck.nats.bulk, {
    ...{ perSecond: PER_SECOND, seed: 7_000, sloMs: SLO_MS },
    gateways: (first) => struck.gateways(first),
  });
  const strikes: Strike[] = [];
  const startedMs = performance.now();
  load.start();
  await goodFor(load, 1_000);
  for (const [name, signal, strike] of strikePlan(struck, await struck.streamLeader())) {
    const role = (NATS as readonly string[]).includes(name) ? "nats" : name.startsWith("node") ? "node" : "executor";
    const one: Strike = {
      ...{ atMs: performance.now(), name, role, signal, backMs: undefined },
      ...{ leading: false, alone: false, actor: undefined },
    };
    strikes.push(one);
    await strike(name);
    one.backMs = performance.now();
    console.log(`${name} ${signal}: back after ${Math.round(one.backMs - one.atMs)} ms`);
    await goodFor(load, 1_000);
  }
  load.stop();
  const endedMs = performance.now();
  await pass(SLO_MS + GRACE_MS); // any answer that is still to come must come in this silence
  const record = {
    ...{ seed: 7_000, layout: { kind: "node", nodes: 2, natsServers: 3 } as const, startedMs, endedMs },
    ...{ requests: load.requests, strikes, takers: new Map(), counted: new Map(), lagMsMax: load.lagMsMax },
  };
  const verdict = judge(record, GRACE_MS);
  expect(verdict.sent).toBeGreaterThan(500);
  expect(failuresOf(verdict, SHARE_MIN), reportText(record, verdict)).toEqual([]);
}, 240_000);

type Planned = readonly [name: Name, signal: Strike["signal"], strike: (name: Name) => Promise<void>];

/** Each strike ends when what it struck serves again. The node that was struck last doesn't lead. */
function strikePlan(on: ContainerCluster, streamLeader: (typeof NATS)[number]): readonly Planned[] {
  const started = async (name: Name): Promise<void> => {
    const serves = on.serves(name);
    await on.start(name);
    await serves;
  };
  const stopped = (name: Name): Planned => [
    name,
    "SIGTERM",
    async () => {
      expect(await on.stopOne(name)).toBe(0);
      await started(name);
    },
  ];
  const killed = (name: Name): Planned => [
    name,
    "SIGKILL",
    async () => {
      await on.kill(name);
      await started(name);
    },
  ];
  const away = (name: Name, leave: "pause" | "disconnect", back: "unpause" | "reconnect"): Planned => [
    name,
    "SIGSTOP",
    async () => {
      await on[leave](name);
      await pass(AWAY_MS);
      const serves = on.serves(name);
      await on[back](name);
      await serves;
    },
  ];
  return [
    stopped(EXECUTORS[0]),
    killed(EXECUTORS[1]),
    away(EXECUTORS[0], "disconnect", "reconnect"),
    killed(NODES[0]),
    away(NODES[1], "disconnect", "reconnect"),
    away(NODES[0], "pause", "unpause"),
    stopped(NODES[1]),
    [
      streamLeader,
      "SIGKILL",
      async () => {
        await on.kill(streamLeader);
        await pass(AWAY_MS);
        await on.start(streamLeader);
        await on.whole();
      },
    ],
    [
      NATS.find((name) => name !== streamLeader)!,
      "SIGSTOP", // its clients notice no more of it than if it were frozen
      async (name) => {
        await on.disconnect(name);
        await pass(NATS_AWAY_MS);
        await on.reconnect(name);
        await on.whole();
      },
    ],
  ];
}

/** Resolves when requests that were sent so much later than now are answered well. */
async function goodFor({ requests }: ChaosLoad, ms: number): Promise<void> {
  const sinceMs = performance.now() + ms;
  await expect
    .poll(() => requests.filter(({ sentMs, answers }) => sentMs >= sinceMs && answers[0]?.status === "ok").length, {
      timeout: 30_000,
      interval: 50,
    })
    .toBeGreaterThan(PER_SECOND / 2);
}

const pass = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
