/**
 * Seeds with a planner whose accelerators can't hold all models, so that it has to divide them. An executor that comes
 * back may have more memory than before, or less.
 */
import type { Engine } from "@tutti/ports/engine";
import { DEFAULT_SUB_CLUSTER } from "@tutti/protocol";
import { type ActorKey, Prng } from "@tutti/units";
import type { Ungrouped } from "./plan.ts";

export interface MemoryPlan {
  /** By the number of the model, from 1 on. */
  readonly models: readonly number[];
  /** Each executor has at least so much: enough for two sub-clusters to hold all models. */
  readonly least: number;
  readonly most: number;
}

/** The first seed that may have bounds; those before mean what they meant. */
export const MEMORY_SEEDS = 3_100_001;
const SHARE = 0.7;
const MB = 1_000_000;

/** A generator of its own, so that the rest of a seed means what it means without bounds. */
export function withMemory(plan: Ungrouped): Ungrouped {
  const { seed, planned, placings, rankers, joiners, executors } = plan;
  const prng = new Prng(seed * 8_009 + 61);
  if (seed < MEMORY_SEEDS || planned === undefined || plan.models.length < 2 || prng.nextFloat() >= SHARE) return plan;
  // One of two executors that only joins during the faults can't hold a sub-cluster's models before.
  if (joiners.includes(`executor-${executors - 1}`)) return plan;
  const models = plan.models.map(() => (10 + prng.nextInt(31)) * MB);
  const all = models.reduce((sum, bytes) => sum + bytes, 0);
  // Two of three models share a sub-cluster at most.
  const largest = Math.max(...models);
  const least = models.length === 2 ? largest : Math.min(...models.map((bytes) => Math.max(bytes, all - bytes)));
  const memory = { models, least, most: Math.round(least + (all - 1 - least) * prng.nextFloat()) };
  const isDivided = planned.subClusters.length > 1;
  const subClusters = [DEFAULT_SUB_CLUSTER, "s1"];
  const more = isDivided || placings !== undefined ? rankers : 2 * rankers;
  return { ...plan, memory, rankers: more, planned: { ...planned, subClusters } };
}

/** Bytes that this executor may use; undefined: it has no bound. */
export function memoryOf({ memory, seed }: Ungrouped, executor: ActorKey): number | undefined {
  if (memory === undefined) return undefined;
  return memory.least + new Prng(seed + (executor % 2 ** 31)).nextInt(memory.most - memory.least + 1);
}

/** An accelerator's models: a copy counts from the beginning of its load until it has been unloaded. */
export function held(engine: Engine, onHeld: (bytes: number) => void, bytesOf: (name: string) => number): Engine {
  const here = new Map<string, number>();
  const change = (name: string, by: number): void => {
    here.set(name, (here.get(name) ?? 0) + by);
    onHeld([...here].reduce((sum, [one, copies]) => sum + copies * bytesOf(one), 0));
  };
  return {
    ...engine,
    load: (model, done) => {
      change(model.spec.name, 1);
      engine.load(model, (outcome) => {
        if (outcome.kind === "failed") change(model.spec.name, -1);
        done(outcome);
      });
    },
    unload: (name, done) =>
      engine.unload(name, () => {
        here.delete(name);
        done();
      }),
  };
}
