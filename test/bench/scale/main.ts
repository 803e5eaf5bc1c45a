/**
 * Measures the cost of a request with several nodes. Clusters of 1, 2 and 4 nodes run on this machine, one after the
 * other in each round, with emulated accelerators. All get the same open-loop load, spread over all nodes' HTTP ports
 * and over models. The processor time of all processes counts, except the load generator's. With two nodes one model is
 * also asked through each node alone: the difference is the cost of a remote batcher. `--apart`: without links, as
 * between hosts.
 *
 *   npm run bench:scale -- [--nodes 1,2,4] [--rates 100,200,400,800,1600] [--seconds 5] [--rounds 2] [--models 8]
 *   [--gpus 16] [--executors 1] [--slo 50] [--apart] [--json]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { runTrial } from "@tutti/bench";
import { NodeClock } from "@tutti/node/clock";
import { millis, seconds } from "@tutti/units";
import { readArguments } from "../arguments.ts";
import { requestOf } from "../peers/requests.ts";
import type { ServedModel } from "../peers/served-models.ts";
import { HttpNodes, type HttpStream } from "./http-nodes.ts";
import { NodesUnderTest, PARTS, type Part } from "./nodes-under-test.ts";
import {
  type Crossing,
  type Idle,
  type Measured,
  type ScaleResult,
  boundsOf,
  costOf,
  crossingOf,
  round,
  rowsOf,
  tableOf,
} from "./scale-table.ts";

/** Defined in packages/host/src/role/host-links.ts. */
const LINKS_VARIABLE = "TUTTI_LINKS";
const USAGE = `npm run bench:scale -- [--nodes 1,2,4] [--rates 100,200,400,800,1600] [--seconds 5] [--rounds 2] [--models 8] [--gpus 16] [--executors 1] [--slo 50] [--apart] [--json]
Processor time a request with several nodes, as a ratio to the fewest nodes' at the same rate and at the same rate a node; messages and bytes on each way; what bounds it next.
With --apart nothing goes over links: messages travel as between hosts.
`;
/** Load before the measurement: V8 compiles hot code in each process anew. */
const WARM_UP = [
  { perSecond: 200, seconds: 4 },
  { perSecond: 600, seconds: 4 },
  { perSecond: 1_500, seconds: 6 },
];
/** Tensors of the emulated models: ResNet50 of Table 2 of the Symphony paper, on a small tensor. */
const INPUT: Pick<ServedModel, "input" | "output"> = {
  input: { name: "x", datatype: "FP32", shape: [1] },
  output: "y",
};
const PROFILE = "batchMax: 32, alphaMs: 1.053, betaMs: 5.072";
const SETTLE_SECONDS = 5;
const IDLE_SECONDS = 8;
const CROSSING = { models: 3, perSecond: 400, seconds: 4 };
/** Capacities: the grants that bench:scheduler reaches on one thread, and a usual network. */
const BOUNDS = { grantsPerSecond: 1_000_000, networkGbit: 10 };

const values = readArguments(USAGE, {
  nodes: { type: "string", default: "1,2,4" },
  rates: { type: "string", default: "100,200,400,800,1600" },
  seconds: { type: "string", default: "5" },
  rounds: { type: "string", default: "2" },
  models: { type: "string", default: "8" },
  gpus: { type: "string", default: "16" },
  executors: { type: "string", default: "1" },
  slo: { type: "string", default: "50" },
  apart: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
});
const counts = numbersOf("nodes", values.nodes);
const rates = numbersOf("rates", values.rates);
const sloMs = Number(values.slo);
const models = Array.from({ length: Number(values.models) }, (_, i) => `model-${i + 1}`);
const say = (text: string): void => void process.stderr.write(`bench:scale: ${text}\n`);

if (values.apart) process.env[LINKS_VARIABLE] = "off";
const folder = mkdtempSync(join(tmpdir(), "tutti-scale-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
const profiles = join(folder, "profiles.yaml");
const profileOf = (name: string): string => `  - { name: ${name}, sloMs: ${sloMs}, ${PROFILE} }\n`;
writeFileSync(profiles, `models:\n${models.map(profileOf).join("")}`);

const clock = new NodeClock();
await clock.ready();
let lastUtilization = performance.eventLoopUtilization();
const measured: Measured[] = [];
const idle: Idle[] = [];
const crossings: Crossing[] = [];
for (let round = 0; round < Number(values.rounds); round++)
  // Every other round goes from the most nodes to the fewest, so that good and bad minutes of the machine count for
  // all.
  for (const nodes of round % 2 === 0 ? counts : [...counts].reverse()) await measureCluster(nodes);
const rows = rowsOf(measured);
const crossing = crossingOf(crossings);
const result: ScaleResult = {
  ...{ sloMs, rows, idle: idleOf(), bounds: boundsOf(rows, BOUNDS) },
  ...(crossing !== undefined && { crossing }),
};
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : tableOf(result));
process.exit(0);

async function measureCluster(nodes: number): Promise<void> {
  say(`starts ${nodes} ${nodes === 1 ? "node" : "nodes"}`);
  const cluster = await NodesUnderTest.start({
    ...{ nodes, profiles },
    ...{ gpus: Number(values.gpus), executors: Number(values.executors) },
  });
  const died = cluster.ended().then(() => {
    throw new Error("the cluster ended while it was measured");
  });
  const work = async (): Promise<void> => {
    await pause(SETTLE_SECONDS);
    idle.push(await measureIdle(cluster, nodes));
    const all = { ports: cluster.ports, models };
    for (const { perSecond, seconds: forSeconds } of WARM_UP) await offer(cluster, all, perSecond, forSeconds);
    for (const perSecond of rates) {
      const one = { nodes, ...(await offer(cluster, all, perSecond, Number(values.seconds))) };
      measured.push(one);
      const cpuUs = costOf(one);
      const good = (100 * one.good) / one.offered;
      say(
        `${nodes} at ${perSecond}/s: ${Math.round(cpuUs)} µs a request, ${good.toFixed(2)} % good, p99 ${one.p99Ms} ms`,
      );
    }
    if (nodes === 2) crossings.push(...(await measureCrossing(cluster)));
  };
  await Promise.race([work(), died]);
  died.catch(() => undefined);
  await cluster.stop();
}

async function measureIdle(cluster: NodesUnderTest, nodes: number): Promise<Idle> {
  const before = await cluster.costs();
  await pause(IDLE_SECONDS);
  const after = await cluster.costs();
  const cpuUs = PARTS.reduce((total, part) => total + after.cpuUs[part] - before.cpuUs[part], 0);
  return {
    nodes,
    corePercent: round(cpuUs / IDLE_SECONDS / 1e4, 1),
    natsMessagesPerSecond: round((after.natsMessages - before.natsMessages) / IDLE_SECONDS, 0),
  };
}

/** Asks each of a few models through each node alone. */
async function measureCrossing(cluster: NodesUnderTest): Promise<Crossing[]> {
  const found: Crossing[] = [];
  for (const model of models.slice(0, CROSSING.models)) {
    const costs: Measured[] = [];
    for (const port of cluster.ports)
      costs.push({
        nodes: 2,
        ...(await offer(cluster, { ports: [port], models: [model] }, CROSSING.perSecond, CROSSING.seconds)),
      });
    const ways = costs.map((one) => ({ cpuUs: costOf(one), linkMessages: one.linkMessages / one.offered }));
    found.push({ perSecond: CROSSING.perSecond, ways });
  }
  return found;
}

interface Aims {
  readonly ports: readonly number[];
  readonly models: readonly string[];
}

async function offer(
  cluster: NodesUnderTest,
  aims: Aims,
  perSecond: number,
  forSeconds: number,
): Promise<Omit<Measured, "nodes">> {
  const streams = aims.ports.flatMap((port) => aims.models.map((model) => ({ port, model })));
  const http = streams.map(({ port, model }): HttpStream => {
    const served: ServedModel = { ...INPUT, name: model, batchMax: 32, sloMs };
    return { port, request: requestOf(served, [1.5], "oip-json", `/v2/models/${model}/infer`) };
  });
  const target = new HttpNodes(http);
  const figures = await cluster.figures();
  const before = await cluster.costs();
  const report = await runTrial({
    ...{
      clock,
      target,
      rate: perSecond,
      seed: 7,
      warmup: seconds(0),
      duration: seconds(forSeconds),
      grace: seconds(1),
    },
    streams: streams.map(({ port, model }) => ({ model, app: `node-${port}`, slo: millis(sloMs), weight: 1 })),
    arrivals: { process: "poisson" },
    utilization: utilizationSinceLast,
  });
  const after = await cluster.costs();
  target.close();
  const now = await cluster.figures();
  return {
    perSecond,
    ...{ offered: report.offered, good: report.good },
    ...{ p50Ms: report.latencyMs.p50 ?? NaN, p99Ms: report.latencyMs.p99 ?? NaN },
    cpuUs: Object.fromEntries(PARTS.map((part) => [part, after.cpuUs[part] - before.cpuUs[part]])) as Record<
      Part,
      number
    >,
    ...{ batches: now.batches - figures.batches, items: now.items - figures.items },
    ...{ natsMessages: after.natsMessages - before.natsMessages, natsBytes: after.natsBytes - before.natsBytes },
    ...{ linkMessages: now.linkMessages - figures.linkMessages, linkBytes: now.linkBytes - figures.linkBytes },
    wasBottleneck: report.client.wasBottleneck,
  };
}

function utilizationSinceLast(): number {
  const now = performance.eventLoopUtilization();
  const { utilization } = performance.eventLoopUtilization(now, lastUtilization);
  lastUtilization = now;
  return utilization;
}

/** The least busy reading of each cluster: other load on the machine only adds. */
function idleOf(): Idle[] {
  return counts.map((nodes) => {
    const readings = idle.filter((one) => one.nodes === nodes);
    return readings.reduce((least, one) => (one.corePercent < least.corePercent ? one : least));
  });
}

function pause(forSeconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, forSeconds * 1_000));
}

function numbersOf(flag: string, list: string): number[] {
  const numbers = list.split(",").map(Number);
  if (numbers.every((number) => Number.isInteger(number) && number > 0)) return numbers;
  process.stderr.write(`--${flag} takes numbers with commas between them, not "${list}"\n\n${USAGE}`);
  process.exit(2);
}
