/** Placing as a mixed-integer linear programme, for exact solvers on small instances (docs/algorithms.md, E2). */
import { type SubClusterProblem, hasMoved, meansOf } from "./problem.ts";

/** Minimise Σ cost·x, where each row's Σ coefficient·x lies between its bounds. */
export interface LinearForm {
  readonly columns: readonly LinearColumn[];
  readonly rows: readonly LinearRow[];
}
interface LinearColumn {
  readonly cost: number;
  readonly lower: number;
  readonly upper: number;
  readonly isInteger: boolean;
}
interface LinearRow {
  readonly lower: number;
  readonly upper: number;
  readonly terms: readonly (readonly [column: number, coefficient: number])[];
}

/**
 * Columns: x_ij at i·l + j, then ΔR, ΔS, then D_j, then z_jq. The largest dynamic memory is in the compact form: a
 * cluster that has any of the models of one distinct dynamic memory needs that much.
 */
export function linearForm(problem: SubClusterProblem): LinearForm {
  const { models, clusters, disruption } = problem;
  const means = meansOf(problem);
  const isFirstFixed = disruption === undefined;
  const largest = models.reduce(
    (best, { staticMemory }, i) => (staticMemory > models[best]!.staticMemory ? i : best),
    0,
  );
  const columns: LinearColumn[] = [];
  const binary = (isOne: boolean): LinearColumn => ({ cost: 0, lower: isOne ? 1 : 0, upper: 1, isInteger: true });
  const real = (cost: number): LinearColumn => ({ cost, lower: 0, upper: Infinity, isInteger: false });
  // For a first plan clusters are alike: the model of most memory is at the first one.
  for (const i of models.keys())
    for (let j = 0; j < clusters; j++) columns.push(binary(isFirstFixed && i === largest && j === 0));
  const rateGap = columns.push(real(1)) - 1;
  const memoryGap = columns.push(real(means.weight)) - 1;
  const dynamicAt = columns.length;
  for (let j = 0; j < clusters; j++) columns.push(real(0));
  const rows: LinearRow[] = models.map((_, i) => ({
    ...{ lower: 1, upper: 1 },
    terms: Array.from({ length: clusters }, (_, j) => [i * clusters + j, 1] as const),
  }));
  for (let j = 0; j < clusters; j++) {
    const of = (value: (model: (typeof models)[number]) => number) =>
      models
        .map((model, i) => [i * clusters + j, value(model)] as const)
        .filter(([, coefficient]) => coefficient !== 0);
    const rates = of(({ rate }) => rate);
    const memories = of(({ staticMemory }) => staticMemory);
    rows.push({ lower: -Infinity, upper: problem.rateMax, terms: rates });
    rows.push({ lower: -Infinity, upper: problem.memoryMax, terms: [...memories, [dynamicAt + j, 1]] });
    for (const [terms, mean, gap] of [
      [rates, means.rate, rateGap],
      [memories, means.memory, memoryGap],
    ] as const) {
      rows.push({ lower: -Infinity, upper: mean, terms: [...terms, [gap, -1]] });
      rows.push({ lower: mean, upper: Infinity, terms: [...terms, [gap, 1]] });
    }
    rows.push(...dynamicRows(problem, j, dynamicAt + j, columns));
  }
  if (disruption !== undefined && disruption.costMax !== Infinity) rows.push(budgetRow(problem));
  return { columns, rows };
}

/** Adds the z of a cluster. */
function dynamicRows(
  { models, clusters }: SubClusterProblem,
  cluster: number,
  dynamicAt: number,
  columns: LinearColumn[],
): LinearRow[] {
  const distinct = [...new Set(models.map(({ dynamicMemory }) => dynamicMemory))].filter((memory) => memory > 0);
  return distinct.flatMap((memory): LinearRow[] => {
    const has = columns.push({ cost: 0, lower: 0, upper: 1, isInteger: true }) - 1;
    const own = [...models.keys()].filter((i) => models[i]!.dynamicMemory === memory);
    return [
      {
        ...{ lower: -Infinity, upper: 0 },
        terms: [...own.map((i) => [i * clusters + cluster, 1] as const), [has, -own.length]],
      },
      {
        lower: 0,
        upper: Infinity,
        terms: [
          [dynamicAt, 1],
          [has, -memory],
        ],
      },
    ];
  });
}

const budgetRow = ({ models, clusters, disruption }: SubClusterProblem): LinearRow => ({
  ...{ lower: -Infinity, upper: disruption!.costMax },
  terms: [...models.keys()]
    .flatMap((i) =>
      Array.from(
        { length: clusters },
        (_, j) => [i * clusters + j, hasMoved(disruption, i, j) ? 2 * disruption!.moveCost[i]! : 0] as const,
      ),
    )
    .filter(([, cost]) => cost > 0),
});

/** What a solver's values say. Judge it: solvers have tolerances. */
export function assignmentOf({ models, clusters }: SubClusterProblem, values: ArrayLike<number>): Int32Array {
  return Int32Array.from({ length: models.length }, (_, i) => {
    let best = 0;
    for (let j = 1; j < clusters; j++) if (values[i * clusters + j]! > values[i * clusters + best]!) best = j;
    return best;
  });
}
