/**
 * Batch-oblivious placement: each model's accelerators in proportion to its rate over its best throughput on one, at
 * least one. docs/algorithms.md, C8; Nexus, §7.2, furnishes Clipper with it.
 */
import type { ScenarioModel } from "../scenario/scenario.ts";
import { largestWithin } from "./gathering.ts";

/** @returns for each accelerator the models on it; each model is on at least one, and no accelerator is idle by plan */
export function staticShares(models: readonly ScenarioModel[], gpus: number): number[][] {
  const needs = models.map(({ profile, slo, share }) => {
    const largest = Math.max(1, largestWithin(profile, slo / 2));
    return (share * profile.latency(largest)) / largest;
  });
  const total = needs.reduce((sum, need) => sum + need, 0);
  // No rates, no proportions: then each model counts the same.
  const ideal = needs.map((need) => (total > 0 ? need / total : 1 / models.length) * gpus);
  const counts = ideal.map((count) => Math.min(gpus, Math.max(1, Math.round(count))));
  balance(counts, ideal, gpus);
  return place(counts, ideal, gpus);
}

/**
 * Adds and takes one at a time where a replica carries most and least, until there are as many replicas as
 * accelerators.
 */
export function balance(counts: number[], ideal: readonly number[], gpus: number): void {
  const placed = () => counts.reduce((sum, count) => sum + count, 0);
  for (let missing = gpus - placed(); missing > 0; missing--) {
    const load = (model: number) => (counts[model]! < gpus ? ideal[model]! / counts[model]! : -1);
    counts[argMax(counts.length, load)]!++;
  }
  for (let surplus = placed() - gpus; surplus > 0; surplus--) {
    const load = (model: number) => (counts[model]! > 1 ? -ideal[model]! / (counts[model]! - 1) : -Infinity);
    const model = argMax(counts.length, load);
    if (counts[model]! === 1) return; // more models than accelerators: some share one
    counts[model]!--;
  }
}

/** The heaviest replicas first, each onto the accelerator that carries least and hasn't the model yet. */
function place(counts: readonly number[], ideal: readonly number[], gpus: number): number[][] {
  const replicas = counts.flatMap((count, model) =>
    Array.from({ length: count }, () => ({ model, load: ideal[model]! / count })),
  );
  replicas.sort((a, b) => b.load - a.load || a.model - b.model);
  const loads = new Float64Array(gpus);
  const placed = Array.from({ length: gpus }, (): number[] => []);
  for (const { model, load } of replicas) {
    const gpu = argMax(gpus, (id) =>
      placed[id]!.includes(model) ? -Infinity : -loads[id]! - placed[id]!.length * 1e-9,
    );
    placed[gpu]!.push(model);
    loads[gpu]! += load;
  }
  return placed;
}

/** The smallest of those with the largest value. */
function argMax(count: number, valueOf: (index: number) => number): number {
  let best = 0;
  let most = -Infinity;
  for (let i = 0; i < count; i++) {
    const value = valueOf(i);
    if (value > most) [best, most] = [i, value];
  }
  return best;
}
