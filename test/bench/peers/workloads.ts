/** The workloads, the systems that are compared by default, and the settings that are tried with each. */
import { RESNET50, type ModelName } from "./served-models.ts";

export const SYSTEM_NAMES = [
  "bare",
  "tutti",
  "tutti-binary",
  "tutti-nats",
  "mosec",
  "litserve",
  "bentoml",
  "pytriton",
  "ray",
] as const;
export type SystemName = (typeof SYSTEM_NAMES)[number];

export const WORKLOAD_NAMES = ["mlp", "ctr", "mixed", "table2", "picture", "lone", "cost", "share", "idle"] as const;
export type WorkloadName = (typeof WORKLOAD_NAMES)[number];

/** One of the three ways in which a server may be set up. */
export interface Setting {
  readonly waitMs: number;
  readonly batchMax: number;
  /** Latency bound in SLOs for BentoML, which has no least wait. */
  readonly latencyMaxSlos: number;
}

export interface Workload {
  readonly name: WorkloadName;
  readonly title: string;
  readonly measure: "goodput" | "lone" | "cost" | "share" | "idle";
  readonly models: readonly ModelName[];
  readonly sloMs: number;
  readonly executors: number;
  readonly isBinary: boolean;
  readonly systems: readonly SystemName[];
  readonly settings: readonly Setting[];
}

const PEERS = ["mosec", "litserve", "bentoml", "pytriton", "ray"] as const;
/** Systems that carry a thousand requests a second and more. */
const FIRST = ["bare", "tutti", "tutti-binary", "tutti-nats", "mosec", "pytriton"] as const;
const WAITS: readonly Setting[] = [
  { waitMs: 0, batchMax: 32, latencyMaxSlos: 1 },
  { waitMs: 1, batchMax: 32, latencyMaxSlos: 3 },
  { waitMs: 5, batchMax: 32, latencyMaxSlos: 20 },
];
/**
 * Batch sizes such that two runs fit into the SLO, the current one and the request's own. l(7) = 12.4 ms, l(10) = 15.6
 * ms, l(12) = 17.7 ms.
 */
const BATCHES: readonly Setting[] = [
  { waitMs: 0, batchMax: 7, latencyMaxSlos: 20 },
  { waitMs: 0, batchMax: 10, latencyMaxSlos: 3 },
  { waitMs: 1, batchMax: 12, latencyMaxSlos: 20 },
];

const ONE: Pick<Workload, "models" | "sloMs" | "executors" | "isBinary" | "settings"> = {
  models: ["mlp"],
  sloMs: 30,
  executors: 1,
  isBinary: false,
  settings: WAITS,
};

export const WORKLOADS: readonly Workload[] = [
  { ...ONE, name: "mlp", title: "mlp", measure: "goodput", systems: SYSTEM_NAMES },
  {
    ...{ ...ONE, name: "ctr", title: "ctr", measure: "goodput", models: ["ctr"] },
    systems: ["bare", "tutti", "mosec", "bentoml", "pytriton"],
  },
  {
    ...{ ...ONE, name: "mixed", title: "mlp, ctr and cnn", measure: "goodput", models: ["mlp", "ctr", "cnn"] },
    systems: ["bare", "tutti", "tutti-nats", "mosec", "litserve", "bentoml", "pytriton"],
  },
  {
    ...{ ...ONE, name: "table2", title: "Table 2 on 8 emulated accelerators", measure: "goodput" },
    ...{ models: ["resnet50"], sloMs: RESNET50.sloMs, executors: 8, settings: BATCHES },
    systems: ["bare", "tutti", "tutti-nats", ...PEERS],
  },
  {
    ...{ ...ONE, name: "picture", title: "150 KB binary tensor", measure: "goodput", models: ["picture"] },
    isBinary: true,
    systems: ["bare", "tutti-binary", "tutti-nats", "mosec", "pytriton"],
  },
  { ...ONE, name: "lone", title: "a lone request", measure: "lone", systems: [...FIRST, "litserve"] },
  { ...ONE, name: "cost", title: "processor time a request", measure: "cost", systems: FIRST },
  {
    ...{ ...ONE, name: "share", title: "in time at shares of the goodput", measure: "share" },
    systems: ["bare", "tutti", "tutti-nats"],
  },
  { ...ONE, name: "idle", title: "idle", measure: "idle", models: ["mlp", "ctr", "cnn"], systems: SYSTEM_NAMES },
];

export const workloadOf = (name: WorkloadName): Workload => WORKLOADS.find((one) => one.name === name)!;
export const isPeer = (name: SystemName): boolean => (PEERS as readonly SystemName[]).includes(name);
