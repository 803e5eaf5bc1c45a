/** Results of a run. */
import type { SystemName, WorkloadName } from "./workloads.ts";

export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly requests: number;
}

export interface Row {
  readonly system: SystemName;
  /** Setting that the system ran with; absent where it has none. */
  readonly setting?: string;
  readonly goodput?: number;
  /** The lowest rate above the goodput that did not hold; not much higher, unless the search was cut short. */
  readonly failedAt?: number;
  /** The system was far behind in the trials of settings: the goodput is that of its ramp. */
  readonly isEstimate?: boolean;
  readonly at70?: Latency & { readonly good: number };
  readonly lone?: Latency & { readonly lagP50Ms: number; readonly lagP99Ms: number };
  readonly cost?: readonly CostPoint[];
  readonly share?: readonly SharePoint[];
  readonly idle?: { readonly corePercent: number; readonly memoryMb: number; readonly memoryKind: "PSS" | "RSS" };
  /** Turns of the event loop that schedules, in the last minute of the trials. */
  turns?: Turns;
  /** Trials in which the generator was the bottleneck. */
  bottlenecks?: number;
}

export interface Turns {
  readonly p999Ms: number;
  readonly maxMs: number;
  /** Share of the turns that was garbage collection. */
  readonly gcShare: number;
}

export interface CostPoint {
  readonly perSecond: number;
  /** Processor time a request, of all its processes. */
  readonly cpuUs: number;
  readonly good: number;
  /** The trial was given up: the figures are those of an overload. */
  readonly isOverloaded: boolean;
  /** Processor time a request, µs, by process. */
  readonly byProcess: Readonly<Record<string, number>>;
}

export interface SharePoint {
  /** Share of the system's own goodput. */
  readonly share: number;
  readonly perSecond: number;
  readonly good: number;
  /** The bare server's share of good requests, in the same minute at the same rate. */
  readonly bareGood?: number;
}

export interface WorkloadResult {
  readonly workload: WorkloadName;
  readonly title: string;
  readonly sloMs: number;
  readonly rows: readonly Row[];
  /** Reasons, by system. */
  readonly skipped: Readonly<Record<string, string>>;
  /** Settings that were tried, with what each carried in its trial. */
  readonly tried: readonly { readonly system: SystemName; readonly setting: string; readonly carried: number }[];
}

export interface PeersResult {
  readonly cores: number;
  readonly node: string;
  /** Length of a trial. */
  readonly seconds: number;
  readonly tookSeconds: number;
  readonly workloads: readonly WorkloadResult[];
}
