/**
 * Input of `tutti plan subclusters`, converted to the planner's problem. Rates are in requests per second, memory in
 * MB; only proportions matter.
 */
import { type SubClusterProblem, type TwoLevelProblem, flatProblem } from "@tutti/planning";
import type { Problem } from "@tutti/sim-report/scenarios";
import { checkNames, readPlanFile } from "./plan-file.ts";

/** The document after the schema check. */
interface SubClustersDocument {
  readonly subClusters: number;
  readonly clusters?: number;
  readonly clusterRateMax?: number;
  readonly rateMax?: number;
  readonly memoryMaxMb?: number;
  readonly weight?: number;
  readonly budget?: number;
  readonly budgetShare?: number;
  readonly seed?: number;
  readonly seconds?: number;
  readonly proposals?: number;
  readonly models: readonly ModelEntry[];
}
interface ModelEntry {
  readonly name: string;
  readonly rate: number;
  readonly staticMb: number;
  readonly dynamicMb?: number;
  readonly was?: number;
  readonly moveCost?: number;
}

export interface SubClustersInput {
  readonly names: readonly string[];
  /** The problem over all sub-clusters, numbered across clusters. */
  readonly problem: SubClusterProblem;
  /** The same problem on two levels, if there are several clusters. */
  readonly levels?: TwoLevelProblem;
  readonly search: { readonly seed: number; readonly seconds?: number; readonly proposals?: number };
}

/** The defaults that the schema declares; the bounds are those of docs/algorithms.md, E3. */
export const SUB_CLUSTER_DEFAULTS = { clusters: 1, seed: 1, seconds: 2 } as const;
const RATE_SLACK = 1.15;
const MEMORY_SLACK = 1.1;

/** @throws {CommandError} as `readPlanFile` */
export async function readSubClustersInput(path: string, settings?: readonly string[]): Promise<SubClustersInput> {
  const { document, giveUpOn } = await readPlanFile<SubClustersDocument>("subclusters", path, settings);
  const {
    clusters = SUB_CLUSTER_DEFAULTS.clusters,
    subClusters,
    clusterRateMax,
    models,
    weight,
    seconds,
    proposals,
  } = document;
  const count = clusters * subClusters;
  const problems: Problem[] = [];
  checkNames("models", models, problems);
  const disruption = disruptionOf(document, problems);
  if (seconds !== undefined && proposals !== undefined)
    problems.push({ path: ["proposals"], text: "give either seconds or proposals" });
  if (clusterRateMax !== undefined && clusters === 1)
    problems.push({ path: ["clusterRateMax"], text: "there is one cluster; rateMax bounds its sub-clusters" });
  const placed = models.map(({ rate, staticMb, dynamicMb = 0 }) => ({
    ...{ rate, staticMemory: staticMb, dynamicMemory: dynamicMb },
  }));
  const rate = placed.reduce((sum, model) => sum + model.rate, 0) / count;
  if (rate === 0) problems.push({ path: ["models"], text: "every rate is 0; give one model a rate above 0" });
  giveUpOn(problems);
  const memory = placed.reduce((sum, { staticMemory }) => sum + staticMemory, 0) / count;
  const largest = placed.reduce((most, { dynamicMemory }) => Math.max(most, dynamicMemory), 0);
  const levels: TwoLevelProblem = {
    ...{ models: placed, clusters, subClusters },
    ...(clusterRateMax !== undefined && { clusterRateMax }),
    rateMax: document.rateMax ?? RATE_SLACK * rate,
    memoryMax: document.memoryMaxMb ?? MEMORY_SLACK * memory + largest,
    ...(weight !== undefined && { weight }),
    ...(disruption !== undefined && { disruption }),
  };
  const bound = proposals === undefined ? { seconds: seconds ?? SUB_CLUSTER_DEFAULTS.seconds } : { proposals };
  return {
    names: models.map(({ name }) => name),
    problem: flatProblem(levels),
    ...(clusters > 1 && { levels }),
    search: { seed: document.seed ?? SUB_CLUSTER_DEFAULTS.seed, ...bound },
  };
}

function disruptionOf(document: SubClustersDocument, problems: Problem[]): SubClusterProblem["disruption"] {
  const { clusters = SUB_CLUSTER_DEFAULTS.clusters, subClusters, models, budget, budgetShare } = document;
  const count = clusters * subClusters;
  const known = models.filter(({ was }) => was !== undefined).length;
  for (const key of ["budget", "budgetShare"] as const) {
    if (document[key] === undefined || known > 0) continue;
    problems.push({ path: [key], text: "a budget bounds moves; say with was: where each model is now" });
  }
  if (budget !== undefined && budgetShare !== undefined)
    problems.push({ path: ["budgetShare"], text: "give either budget or budgetShare" });
  if (known === 0) return undefined;
  for (const [i, { name, was }] of models.entries()) {
    if (was === undefined)
      problems.push({ path: ["models", i], text: `"was" is missing; others say where they are, so ${name} has to` });
    else if (was >= count)
      problems.push({
        path: ["models", i, "was"],
        text: `${was} is no sub-cluster; they are numbered from 0 to ${count - 1}`,
      });
  }
  const moveCost = models.map(({ moveCost: cost, staticMb }) => cost ?? staticMb);
  const all = 2 * moveCost.reduce((sum, cost) => sum + cost, 0);
  const costMax = budget ?? (budgetShare === undefined ? Infinity : budgetShare * all);
  return { previous: models.map(({ was }) => was ?? 0), moveCost, costMax };
}
