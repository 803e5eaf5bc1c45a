/** Text of `tutti plan subclusters`: each sub-cluster's load, and the reason for each model's place. */
import { type SubClusterPlan, type TwoLevelProblem, nextBest, withModelAt } from "@tutti/planning";
import { renderTable } from "@tutti/admin";
import type { SubClustersInput } from "./subclusters-input.ts";
import type { SubClustersResult, SubClustersRun } from "./subclusters-plan.ts";
import { bar, cutRows, figure, listed, plural, share } from "./plan-text.ts";

export function renderSubClusters(result: SubClustersResult): string {
  const { subClusters, models, imbalance, rateMax, memoryMaxMb, before, budget } = result;
  const clusters = new Set(subClusters.map(({ cluster }) => cluster)).size;
  const { rows, more } = cutRows(
    subClusters.map(({ subCluster, cluster, rate, staticMb, dynamicMb, models: names }) => [
      ...(cluster === undefined ? [] : [String(cluster)]),
      String(subCluster),
      figure(rate),
      bar(rate / rateMax),
      share(rate / rateMax),
      figure(staticMb),
      figure(dynamicMb),
      share((staticMb + dynamicMb) / memoryMaxMb),
      listed(names, 8),
    ]),
  );
  const lines = [
    `${plural(models.length, "model")} over ${plural(subClusters.length, "sub-cluster")}${clusters > 1 ? ` of ${plural(clusters, "cluster")}` : ""}: rates differ by ${percent(imbalance.rate)} of their mean, ` +
      `static memory by ${percent(imbalance.memory)}; objective ${figure(result.objective)} (greedy: ${result.greedy.feasible ? figure(result.greedy.objective) : "breaks a bound"})`,
  ];
  if (before !== undefined) {
    const within = budget === null ? "no bound on moves" : `within a budget of ${figure(budget)}`;
    const was = before.feasible ? `objective ${figure(before.objective)}` : "infeasible now";
    lines.push(
      `${plural(result.moved, "model")} moved at a cost of ${figure(result.moveCost)} (${within}); before: ${was}`,
    );
  }
  if (!result.feasible) lines.push("", infeasible(result));
  const headings = [
    ...(clusters > 1 ? ["cluster"] : []),
    "sub-cluster",
    "r/s",
    "",
    "of bound",
    "static MB",
    "dynamic MB",
    "of memory",
    "models",
  ];
  return [...lines, "", renderTable(headings, rows), ...more].join("\n");
}

const infeasible = ({ before }: SubClustersResult): string =>
  before === undefined
    ? "No plan keeps the bounds: this one breaks them least. Raise rateMax or memoryMaxMb, or add sub-clusters."
    : "No plan within the budget keeps the bounds: this is the plan from before. Raise the budget, rateMax or memoryMaxMb.";

/** Formats a share with two significant digits, since good plans have small imbalances. */
const percent = (value: number): string =>
  `${(100 * value).toLocaleString("en-US", { maximumSignificantDigits: 2 })} %`;

/** One or more sentences for each model, in the order of the file. */
export function explainSubClusters(input: SubClustersInput, { plan, result }: SubClustersRun): string[] {
  const { names, problem } = input;
  const previous = problem.disruption?.previous;
  if (!plan.feasible) return [infeasible(result), ...broken(input, plan)];
  return problem.models.map(({ rate, staticMemory }, i) => {
    const heading = `${names[i]} (${figure(rate)} r/s, ${figure(staticMemory)} MB):`;
    const here = plan.clusters[i]!;
    if (previous === undefined) return `${heading} sub-cluster ${here}. ${alternative(input, plan, i)}`;
    const home = previous[i]!;
    if (home === here) return `${heading} stays at sub-cluster ${here}. ${alternative(input, plan, i)}`;
    const cost = figure(2 * problem.disruption!.moveCost[i]!);
    const left = withModelAt(problem, plan, i, home).plan;
    return `${heading} moves from ${home} to ${here}, at a cost of ${cost}. Left where it was, ${consequence(input, plan, left)}.`;
  });
}

function alternative(input: SubClustersInput, plan: SubClusterPlan, model: number): string {
  const { problem } = input;
  const other = nextBest(problem, plan, model);
  if (other === undefined) return "There is no other.";
  const best = problem.clusters > 2 ? "the best other" : "the other";
  return `At ${best}, ${other.cluster}, ${consequence(input, plan, other.plan)}.`;
}

function consequence(input: SubClustersInput, plan: SubClusterPlan, other: SubClusterPlan): string {
  const worse = other.objective - plan.objective;
  const objective = `the objective would be ${figure(other.objective)} instead of ${figure(plan.objective)}`;
  const [first] = broken(input, other);
  if (first === undefined)
    return worse < 0
      ? `${objective}: the search hasn't found that`
      : worse === 0
        ? "the plan would be worth the same"
        : objective;
  return first;
}

/** The rate bounds of clusters (`clusterRateMax`) that a plan breaks. */
function brokenAbove(levels: TwoLevelProblem | undefined, plan: SubClusterPlan): string[] {
  if (levels?.clusterRateMax === undefined) return [];
  const rates = new Float64Array(levels.clusters);
  for (const [i, { rate }] of levels.models.entries())
    rates[Math.floor(plan.clusters[i]! / levels.subClusters)]! += rate;
  const bound = levels.clusterRateMax;
  return [...rates].flatMap((rate, cluster) =>
    rate > bound * (1 + 1e-9)
      ? [`cluster ${cluster} would have ${figure(rate)} r/s, above its bound of ${figure(bound)}`]
      : [],
  );
}

/** The bounds that a plan breaks. */
function broken({ problem, levels }: SubClustersInput, plan: SubClusterPlan): string[] {
  const texts: string[] = [];
  const rates = new Float64Array(problem.clusters);
  const memories = new Float64Array(problem.clusters);
  const largest = new Float64Array(problem.clusters);
  for (const [i, model] of problem.models.entries()) {
    const j = plan.clusters[i]!;
    rates[j]! += model.rate;
    memories[j]! += model.staticMemory;
    largest[j] = Math.max(largest[j]!, model.dynamicMemory);
  }
  for (const [j, rate] of rates.entries()) {
    const needed = memories[j]! + largest[j]!;
    if (rate > problem.rateMax * (1 + 1e-9))
      texts.push(`sub-cluster ${j} would have ${figure(rate)} r/s, above its bound of ${figure(problem.rateMax)}`);
    if (needed > problem.memoryMax * (1 + 1e-9))
      texts.push(`sub-cluster ${j} would need ${figure(needed)} MB, above its bound of ${figure(problem.memoryMax)}`);
  }
  const costMax = problem.disruption?.costMax ?? Infinity;
  if (plan.moveCost > costMax * (1 + 1e-9))
    texts.push(`moves would cost ${figure(plan.moveCost)}, above the budget of ${figure(costMax)}`);
  return [...texts, ...brokenAbove(levels, plan)];
}
