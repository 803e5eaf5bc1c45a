/** Loads that are served and simulated: what is asked for, how often, and by which models. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseZoo } from "@tutti/sim-report/scenarios";

export interface WorkloadModel {
  readonly name: string;
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly batchMax: number;
  readonly sloMs: number;
}

export interface Workload {
  readonly name: string;
  /** Each is asked for equally often. */
  readonly models: readonly WorkloadModel[];
  readonly gpus: number;
  /** Requests a second, all models together. */
  readonly rate: number;
  /** As `tutti bench` takes them. */
  readonly arrivals: "poisson" | `gamma:${number}`;
}

/** ResNet50 of Symphony's Table 2. */
const RESNET50: WorkloadModel = { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, batchMax: 64, sloMs: 25 };

const ZOO = join(import.meta.dirname, "../scenarios/zoos/a100.csv");
const ZOO_MODELS = 10;
/** The batch by which models of the zoo are compared. */
const TYPICAL = 8;

/** The fastest models of Symphony's A100 zoo, so that emulated accelerators carry what two cores can schedule. */
function fastest(): WorkloadModel[] {
  const latency = ({ alphaMs, betaMs }: Pick<WorkloadModel, "alphaMs" | "betaMs">): number =>
    TYPICAL * alphaMs + betaMs;
  return parseZoo(readFileSync(ZOO, "utf8"), ZOO)
    .toSorted((a, b) => latency(a) - latency(b))
    .slice(0, ZOO_MODELS)
    .map((model) => ({ ...model, name: model.name.toLowerCase(), batchMax: 64 }));
}

/** In the order in which they run. `table2` is at 0.8 of what two cores serve, and `bursty` is refused a little. */
export const WORKLOADS: readonly Workload[] = [
  { name: "table2", models: [RESNET50], gpus: 8, rate: 3_600, arrivals: "poisson" },
  { name: "zoo", models: fastest(), gpus: 8, rate: 2_500, arrivals: "poisson" },
  { name: "bursty", models: [RESNET50], gpus: 8, rate: 3_400, arrivals: "gamma:0.1" },
];
