/**
 * Seeds with two sub-clusters, and the placement of models and accelerators in them. Placements are random while faults
 * last, sensible before and after.
 */
import type { ExecutorConfig } from "@tutti/executor";
import { DEFAULT_SUB_CLUSTER } from "@tutti/protocol";
import { type Micros, Prng, micros } from "@tutti/units";
import type { Plan } from "./plan.ts";

/** Sub-cluster of each model and each executor, by its index. `main>s1`: it moves there; empty: nowhere. */
export interface Placing {
  readonly models: readonly string[];
  readonly executors: readonly string[];
}
export interface Placings {
  readonly subClusters: readonly string[];
  readonly first: Placing;
  readonly changes: readonly { readonly atUs: number; readonly placing: Placing }[];
  readonly last: Placing;
  /**
   * How long executors wait and keep models: shorter than in production, in some seeds too short for messages on their
   * way. A batch is then refused and put back. Undefined: production's.
   */
  readonly brief: Pick<ExecutorConfig, "lingerFor" | "keptFor"> | undefined;
}

/** Share of seeds with two sub-clusters, of those that are neither calm nor struck. */
const SHARE = 0.35;
const OTHER = "s1";

/** A generator of its own, so that seeds without placements mean what they meant. */
const prngOf = (seed: number): Prng => new Prng(seed * 4_001 + 11);

export const hasTwoSubClusters = (seed: number): boolean => prngOf(seed).nextFloat() < SHARE;

export function placingsOf(
  seed: number,
  plan: Pick<Plan, "durationUs" | "executors" | "joiners"> & { readonly models: { readonly length: number } },
): Placings {
  const prng = prngOf(seed).fork();
  const subClusters = [DEFAULT_SUB_CLUSTER, OTHER];
  const any = (): string => subClusters[prng.nextInt(2)]!;
  const executors = plan.executors + plan.joiners.filter((slot) => slot.startsWith("executor")).length;
  const many = <Item>(length: number, make: (i: number) => Item): Item[] => Array.from({ length }, (_, i) => make(i));
  /** Every model is where an executor is that has been there from the beginning. */
  const sensible = (): Placing => {
    const places = many(executors, any);
    const inhabited = places.slice(0, plan.executors);
    return { executors: places, models: many(plan.models.length, () => inhabited[prng.nextInt(inhabited.length)]!) };
  };
  /**
   * A placement that no planner of ours would make: models move at once, to sub-clusters without executors, or nowhere.
   */
  const senseless = (): Placing => ({
    executors: many(executors, () => (prng.nextFloat() < 0.1 ? "" : any())),
    models: many(plan.models.length, () => {
      if (prng.nextFloat() < 0.05) return "";
      const from = any();
      return prng.nextFloat() < 0.4 ? `${from}>${from === OTHER ? DEFAULT_SUB_CLUSTER : OTHER}` : from;
    }),
  });
  const changes = many(1 + prng.nextInt(6), () => ({
    atUs: prng.nextInt(plan.durationUs),
    placing: prng.nextFloat() < 0.6 ? sensible() : senseless(),
  }));
  const [first, last] = [sensible(), sensible()];
  const briefly = (leastUs: number): Micros => micros(Math.round(leastUs * 40 ** prng.nextFloat()));
  const brief = { lingerFor: briefly(1_000), keptFor: briefly(2_000) };
  return { subClusters, first, changes, last, brief };
}
