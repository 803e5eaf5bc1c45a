/**
 * One soak from start to end. It has a cluster of two nodes under load, disturbances, a strike now and then, and
 * samples of its processes' resources.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats } from "@tutti/bus-nats";
import { generateAddOne } from "@tutti/onnx-tools";
import { startCluster } from "../e2e/chaos/cluster.ts";
import { WIDTH } from "../e2e/chaos/models.ts";
import { ChaosLoad } from "../e2e/chaos/load.ts";
import type { ChaosRecord } from "../e2e/chaos/record.ts";
import { Striker } from "../e2e/chaos/striker.ts";
import { Tap } from "../e2e/chaos/tap.ts";
import { CLIENT_GRACE_MS } from "../e2e/chaos/verdict.ts";
import { type DisturbanceCounts, Disturbances } from "./disturbances.ts";
import { fillClosedConnections } from "./fill-closed-connections.ts";
import { Sampler, type Series } from "./sampler.ts";
import { warmSeconds } from "./soak-verdict.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly perSecond: number;
  readonly sloMs: number;
  readonly seed: number;
  /** Time between strikes. */
  readonly strikeEveryMs: number;
  readonly onMinute?: (minute: number, record: { readonly requests: number; readonly strikes: number }) => void;
}

export interface SoakRecord {
  readonly chaos: ChaosRecord;
  readonly series: readonly Series[];
  readonly counts: DisturbanceCounts;
}

const LAYOUT = { kind: "node", nodes: 2 } as const;
/** Configuration of the model that comes and goes: emulated executors take these latencies. */
const CONFIG = "{ slo: 10s, max_batch_size: 8, latencies: { alpha: 1ms, beta: 4ms } }";
/** Time after a strike in which a load may fail. */
const STRUCK_MS = 10_000;
/** Time for ingresses to report their figures, which they do once a second. */
const FIGURES_MS = 1_500;
const CALM_MS = 1_500;
/** Share of the warm-up in which the server's memory of closed connections is filled. */
const FILL_SHARE = 0.7;

export async function soakRun(options: SoakOptions): Promise<SoakRecord> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-soak-"));
  const closing: (() => Promise<unknown> | void)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    const model = join(folder, "passing.onnx");
    await writeFile(model, generateAddOne({ width: WIDTH }));
    await writeFile(join(folder, "config.yaml"), CONFIG);
    const cluster = await startCluster(LAYOUT);
    closing.push(() => cluster.stop());
    const { perSecond, seed, sloMs } = options;
    const connections = await connectNats({ servers: cluster.up.url, name: "soak-load" });
    closing.push(() => connections.close());
    const load = new ChaosLoad(connections.bulk, { perSecond, seed, sloMs, gateways: cluster.gateways });
    const lastToken = (): number => load.requests.length - 1;
    const tap = await Tap.open(cluster.up.url, cluster.credentialsOf("planner"), { sloMs, lastToken });
    closing.push(() => tap.close());
    const striker = new Striker({ up: cluster.up, tap, seed, layout: LAYOUT, everyMs: options.strikeEveryMs });
    const startedMs = performance.now();
    const isStruck = (): boolean => {
      const last = striker.strikes.at(-1);
      return last !== undefined && (last.backMs ?? performance.now()) > performance.now() - STRUCK_MS;
    };
    const sampler = new Sampler(cluster.up, startedMs);
    closing.push(() => sampler.stop());
    const disturbances = new Disturbances({ cluster, model, isStruck });
    closing.push(() => disturbances.stop());
    const filled = new AbortController();
    const fillMs = 1_000 * FILL_SHARE * warmSeconds(60 * options.minutes);
    const filling = fillClosedConnections(cluster.up.url, fillMs, filled.signal);
    closing.push(() => (filled.abort(), filling));
    const telling = setInterval(() => {
      const minute = Math.round((performance.now() - startedMs) / 60_000);
      options.onMinute?.(minute, { requests: load.requests.length, strikes: striker.strikes.length });
    }, 60_000);
    closing.push(() => clearInterval(telling));
    load.start();
    await pass(CALM_MS);
    const untilMs = startedMs + 60_000 * options.minutes;
    await striker.run({ count: Infinity, untilMs: untilMs - CALM_MS });
    await pass(untilMs - performance.now());
    await disturbances.stop();
    load.stop();
    sampler.stop();
    const endedMs = performance.now();
    const overMs = endedMs + 2 * sloMs + CLIENT_GRACE_MS;
    await pass(overMs + FIGURES_MS - performance.now());
    const { requests, lagMsMax } = load;
    const { strikes } = striker;
    const counted = tap.counted(overMs);
    return {
      chaos: { seed, layout: LAYOUT, startedMs, endedMs, requests, strikes, takers: tap.takers, counted, lagMsMax },
      series: sampler.series,
      counts: disturbances.counts,
    };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

const pass = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, Math.max(0, ms)));
