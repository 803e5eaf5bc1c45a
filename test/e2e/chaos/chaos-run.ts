/** One chaos run from start to end: a cluster, a load, a tap, strikes; and the record of it all. */
import { connectNats, readCredentials } from "@tutti/bus-nats";
import { startCluster } from "./cluster.ts";
import { ChaosLoad } from "./load.ts";
import type { ChaosRecord, Layout, Strike } from "./record.ts";
import { Striker } from "./striker.ts";
import { Tap } from "./tap.ts";
import { CLIENT_GRACE_MS } from "./verdict.ts";

export interface ChaosOptions {
  readonly seed: number;
  readonly layout: Layout;
  readonly perSecond: number;
  readonly sloMs: number;
  /** The run ends after so many strikes or so much time, whichever comes first. */
  readonly strikes: number;
  readonly forMs: number;
  /** Called with what the servers can't keep, so that a failed run isn't taken for Tutti's. */
  readonly onWarning?: (warning: string) => void;
  readonly onStrike?: (strike: Strike, sent: number) => void;
}

/** Time without strikes, before the first and after the last. */
const CALM_MS = 1_500;
/** Time after the last requests for ingresses to report their figures, which they do once a second. */
const FIGURES_MS = 1_500;

export async function chaosRun(options: ChaosOptions): Promise<ChaosRecord> {
  const { seed, layout, perSecond, sloMs, strikes, forMs, onStrike, onWarning } = options;
  const cluster = await startCluster(layout);
  const closing: (() => Promise<void>)[] = [() => cluster.stop()];
  try {
    const connections = await connectNats({
      servers: cluster.urls,
      name: "chaos-load",
      ...(cluster.appCredentials !== undefined && { credentials: readCredentials(cluster.appCredentials) }),
    });
    closing.push(() => connections.close());
    if (connections.warning !== undefined) onWarning?.(connections.warning);
    const load = new ChaosLoad(connections.bulk, { perSecond, seed, sloMs, gateways: cluster.gateways });
    const lastToken = (): number => load.requests.length - 1;
    const tap = await Tap.open(cluster.urls, cluster.credentialsOf("planner"), { sloMs, lastToken });
    closing.push(() => tap.close());
    const striker = new Striker({
      up: cluster.up,
      nats: cluster.nats,
      tap,
      seed,
      layout,
      onStrike: (strike) => onStrike?.(strike, load.requests.length),
    });
    const startedMs = performance.now();
    load.start();
    try {
      await pass(CALM_MS);
      await striker.run({ count: strikes, untilMs: startedMs + forMs });
      await pass(CALM_MS);
    } finally {
      load.stop();
    }
    const endedMs = performance.now();
    const overMs = endedMs + 2 * sloMs + CLIENT_GRACE_MS;
    await pass(overMs + FIGURES_MS - performance.now());
    return {
      seed,
      layout,
      startedMs,
      endedMs,
      requests: load.requests,
      strikes: striker.strikes,
      takers: tap.takers,
      counted: tap.counted(overMs),
      lagMsMax: load.lagMsMax,
    };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Lets time pass: any answer that is still to come must come in this silence. */
const pass = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
