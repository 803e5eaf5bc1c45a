/** The workloads by which a change of the default policy is judged. */
import { join } from "node:path";

export interface Row {
  readonly name: string;
  /** Arguments of `tutti goodput` without the policy. */
  readonly args: readonly string[];
}

const SCENARIOS = join(import.meta.dirname, "../scenarios");
const SEED = "9001";

type Sets = Readonly<Record<string, string>>;

const row = (name: string, file: string, seeds: number, sets: Sets = {}, ...more: readonly string[]): Row => ({
  name,
  args: [
    ...[join(SCENARIOS, `${file}.yaml`), "--seed", SEED, "--seeds", `${seeds}`, "--precision", "0.5"],
    ...Object.entries(sets).flatMap(([axis, value]) => ["--set", `${axis}=${value}`]),
    ...more,
  ],
});

/** One model, many, a machine that stands still, and few accelerators. */
export const ROWS: readonly Row[] = [
  row("Table 2, ResNet50", "table2-resnet50-poisson", 3),
  row("Table 2, InceptionResNetV2", "table2-inceptionresnetv2-poisson", 3),
  row("Table 2, ResNet50, Gamma 0.1", "table2-resnet50-gamma-0.1", 3),
  row("Table 2, InceptionResNetV2, Gamma 0.1", "table2-inceptionresnetv2-gamma-0.1", 3),
  row("A100 zoo", "zoo-a100-poisson", 1),
  row("1080Ti zoo", "zoo-1080ti-poisson", 1),
  row("A100 zoo, Gamma 0.1", "zoo-a100-gamma-0.1", 1),
  row("1080Ti zoo, Gamma 0.1", "zoo-1080ti-gamma-0.1", 1),
  ...["none", "scheduler", "machine", "machine-long"].map((stalls) =>
    row(`live's delays, stalls: ${stalls}`, "stalls", 2, { stalls }),
  ),
  ...["equal", "bursty", "changing", "skewed", "mixed"].map((workload) =>
    row(`${workload}, accelerators: 16`, "policies-compared", 1, { subClusters: "1", workload }),
  ),
  row("light, accelerators: 8", "policies-compared", 1, { subClusters: "1", workload: "light" }),
  row("nine models, accelerators: 4", "policies-few-accelerators", 2, { subClusters: "1", workload: "few" }),
  ...["1", "2", "3"].flatMap((gpus) =>
    ["two", "three"].map((models) =>
      row(`${models} models, accelerators: ${gpus}`, "few-accelerators", 2, { models }, "--gpus", gpus),
    ),
  ),
  row("ResNet50, accelerators: 1", "table2-resnet50-poisson", 2, {}, "--gpus", "1"),
  row("ResNet50, Gamma 0.1, accelerators: 1", "table2-resnet50-gamma-0.1", 2, {}, "--gpus", "1"),
];
