/** Reads `planner` and `subClusters` of a scenario file. */
import { type Scenario, elasticPolicyNames, isElasticPolicy } from "@tutti/simulator";
import { seconds } from "@tutti/units";
import type { Problem } from "./located-yaml.ts";
import { unfitToLearn } from "./scenario-learned.ts";
import { unfitForNoise } from "./scenario-noise.ts";
import { unfitForJobs } from "./scenario-jobs.ts";
import { unfitForTypes } from "./scenario-types.ts";

export interface PlannerEntry {
  readonly epochS: number;
  readonly startupS?: number;
  readonly gpusMin?: number;
  readonly gpusStart?: number;
  readonly rule?: "work" | "advice";
}

/** Maximum number of epochs: a result has one line for each. */
const EPOCHS_HIGHEST = 100_000;

export function plannerOf(
  { planner }: { readonly planner?: PlannerEntry },
  { gpus, duration }: Pick<Scenario, "gpus" | "duration">,
  problems: Problem[],
): Pick<Scenario, "planner"> {
  if (planner === undefined) return {};
  const { epochS, startupS = 0, gpusMin = 1, gpusStart = gpus, rule = "work" } = planner;
  const above = (key: "gpusMin" | "gpusStart", value: number): void => {
    if (value <= gpus) return;
    problems.push({ path: ["planner", key], text: `${value} are more than the ${gpus} accelerators that there are` });
  };
  const epoch = seconds(epochS);
  if (duration / epoch > EPOCHS_HIGHEST) {
    const text = `${epochS} s make ${Math.ceil(duration / epoch)} epochs of ${duration / 1e6} s; ${EPOCHS_HIGHEST} is the limit`;
    problems.push({ path: ["planner", "epochS"], text });
  }
  above("gpusMin", gpusMin);
  above("gpusStart", gpusStart);
  if (gpusStart < gpusMin) {
    const text = `${gpusStart} are fewer than gpusMin, ${gpusMin}`;
    problems.push({ path: ["planner", "gpusStart"], text });
  }
  return { planner: { epoch, startup: seconds(startupS), gpusMin, gpusStart, rule } };
}

export function subClustersOf(
  { subClusters, subClustersMin }: { readonly subClusters?: number; readonly subClustersMin?: number },
  { gpus, models, planner }: Pick<Scenario, "gpus" | "models" | "planner">,
  problems: Problem[],
): Pick<Scenario, "subClusters" | "subClustersMin"> {
  if (subClustersMin !== undefined && subClustersMin > (subClusters ?? 1)) {
    const text = `${subClustersMin} of ${subClusters ?? 1}; no more are used than there are`;
    problems.push({ path: ["subClustersMin"], text });
  }
  if (subClusters === undefined) return {};
  const report = (text: string): void => void problems.push({ path: ["subClusters"], text });
  if (subClusters > models.length) report(`${subClusters} for ${models.length} models; each has at least one`);
  if (subClusters > gpus) report(`${subClusters} for ${gpus} accelerators; each has at least one`);
  if (subClusters > 1 && planner !== undefined) report("doesn't go with a planner, which is that of one scheduler");
  return { subClusters, ...(subClustersMin !== undefined && { subClustersMin }) };
}

/** The reason why a policy can't run a scenario with a planner, sub-clusters or noise; undefined: it can. */
export function unfitPolicy(scenario: Scenario, policy: string): string | undefined {
  const { planner, subClusters = 1 } = scenario;
  const noisy = unfitForNoise(scenario, policy) ?? unfitToLearn(scenario, policy);
  if (noisy !== undefined) return noisy;
  const uneven = unfitForHalves(scenario, policy) ?? unfitForTypes(scenario, policy) ?? unfitForJobs(scenario, policy);
  if (uneven !== undefined) return uneven;
  if (isElasticPolicy(policy) || (planner === undefined && subClusters === 1)) return undefined;
  const own = elasticPolicyNames().join(", ");
  if (planner === undefined) return `'${policy}' is for the whole cluster; in subClusters use ${own}`;
  return `'${policy}' can't take or give back accelerators during a run; with a planner use ${own}`;
}

function unfitForHalves({ planner, pipelines, models }: Scenario, policy: string): string | undefined {
  if (policy !== "default:halves") return undefined;
  if (pipelines !== undefined) return `'${policy}': pipelines and halves of accelerators don't go together yet`;
  if (planner !== undefined) return `'${policy}': a planner and halves of accelerators don't go together yet`;
  const dynamic = models.find((model) => model.dynamic !== undefined);
  return dynamic && `'${policy}': how long ${dynamic.name} takes on half of an accelerator is not known`;
}
