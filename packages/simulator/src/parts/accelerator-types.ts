/**
 * Unlike accelerators under Tutti's own policies: offers are planned with the slowest, and a batch is formed for the
 * accelerator that is granted (docs/algorithms.md, A3).
 */
import { poolCapacity } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { GpuId } from "@tutti/units";
import type { AcceleratorType, ScenarioModel } from "../scenario.ts";
import type { SimClusterFactory, SimClusterOptions, SimRequest } from "../simulated-cluster.ts";
import { slower } from "./part-profile.ts";
import { SteppedClusters, renumbered } from "../stepped-clusters.ts";

export interface TypedModels {
  /** Models with the latencies of the slowest accelerators. */
  readonly models: readonly ScenarioModel[];
  /** Latencies of a model, by its index, on an accelerator that is faster. */
  readonly ownProfile: (model: number, gpu: GpuId) => LatencyTable | undefined;
}

export function typedModels(models: readonly ScenarioModel[], types: readonly AcceleratorType[]): TypedModels {
  const slowest = Math.max(...types.map(({ times }) => times));
  const byType = types.map(({ times }) => models.map(({ profile }) => slower(profile, times)));
  const typeOf = types.flatMap(({ gpus }, type) => new Array<number>(gpus).fill(type));
  return {
    models: models.map((model) => ({ ...model, profile: slower(model.profile, slowest) })),
    ownProfile: (model, gpu) => {
      const type = typeOf[gpu]!;
      return types[type]!.times === slowest ? undefined : byType[type]![model]!;
    },
  };
}

/**
 * A static split, for comparison: each type is a cluster of its own with every model, and requests are dealt to them in
 * proportion to what they are expected to carry (docs/algorithms.md, D9).
 */
export function inPools(create: SimClusterFactory): SimClusterFactory {
  return (options) => {
    const { types, ...rest } = options;
    if (types === undefined) return create(options);
    const count = { batches: 0 };
    let firstGpu = 0;
    const pools = types.map(({ gpus, times }) => {
      const models = rest.models.map((model) => ({ ...model, profile: slower(model.profile, times) }));
      const listener = renumbered(rest.listener, firstGpu, count);
      firstGpu += gpus;
      return create({ ...rest, models, gpus, listener });
    });
    return new SteppedClusters(pools, dealtBy(weightsOf(types, options)));
  };
}

function weightsOf(types: readonly AcceleratorType[], { models, shares }: SimClusterOptions): readonly number[] {
  const carried = types.map(({ gpus, times }) => {
    const pool = models.map(({ profile, slo, share }, i) => {
      return { share: shares?.[i] ?? share, slo, dispersion: 1, profile: slower(profile, times) };
    });
    return poolCapacity(pool, gpus).carried;
  });
  const total = carried.reduce((sum, rate) => sum + rate, 0);
  return carried.map((rate) => (total > 0 ? rate / total : 1 / types.length));
}

/** Deals each model's requests evenly by weights: the member that is furthest behind its share has the next one. */
function dealtBy(weights: readonly number[]): (request: SimRequest) => number {
  const behind = new Map<number, number[]>();
  return ({ model }) => {
    const own = behind.get(model) ?? weights.map(() => 0);
    behind.set(model, own);
    let next = 0;
    for (const [i, weight] of weights.entries()) {
      own[i]! += weight;
      if (own[i]! > own[next]!) next = i;
    }
    own[next]!--;
    return next;
  };
}
