/**
 * Unlike accelerators under Tutti's own policies: offers are planned with the slowest that can meet the model's SLO, a
 * batch is formed for the accelerator that is granted, and those that can't meet the SLO are not (docs/algorithms.md,
 * A3 and A4).
 */
import { type OfferedType, type TypedCapacity, servingTypes, typedCapacity } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { FastestType, UnfitTypes } from "@tutti/scheduling";
import type { GpuId } from "@tutti/units";
import type { AcceleratorType, Network, ScenarioModel } from "../scenario/scenario.ts";
import type { SimClusterFactory, SimClusterOptions, SimRequest } from "../cluster/simulated-cluster.ts";
import { delayOf, slower } from "./part-profile.ts";
import { SteppedClusters, renumbered } from "../cluster/stepped-clusters.ts";

export interface TypedModels {
  /** Models with the latencies of the slowest accelerators that serve them. */
  readonly models: readonly ScenarioModel[];
  /** By model: the types that can't serve it. */
  readonly unfit: readonly UnfitTypes[];
  /** By model: the fastest type that serves it, where the others that do are slower. */
  readonly fastest: readonly (FastestType | undefined)[];
  readonly typeOf: (gpu: GpuId) => number;
  /** Latencies of a model, by its index, on an accelerator that is faster. */
  readonly ownProfile: (model: number, gpu: GpuId) => LatencyTable | undefined;
}

export function typedModels(
  models: readonly ScenarioModel[],
  types: readonly AcceleratorType[],
  network: Network,
): TypedModels {
  const typeOf = types.flatMap(({ gpus }, type) => new Array<number>(gpus).fill(type));
  const typed = models.map((model) => {
    const byType = types.map(({ times }) => slower(model.profile, times));
    const fit = servingTypes(
      types.map(({ gpus, times }, type) => offered(model, byType[type]!, gpus / times, network)),
    );
    const serving = types.map((_, type) => type).filter((type) => fit[type]);
    const slowest = Math.max(...serving.map((type) => types[type]!.times));
    const fastest = Math.min(...serving.map((type) => types[type]!.times));
    return { byType, serving, slowest, fastest };
  });
  return {
    models: models.map((model, i) => ({ ...model, profile: slower(model.profile, typed[i]!.slowest) })),
    unfit: typed.map(({ serving }) => types.map((_, type) => ({ type })).filter(({ type }) => !serving.includes(type))),
    fastest: typed.map(({ byType, slowest, fastest }) => {
      if (slowest === fastest) return undefined;
      const isFastest = types.map(({ times }) => times === fastest);
      const unfit = types.map((_, type) => ({ type })).filter(({ type }) => !isFastest[type]);
      return { profile: byType[isFastest.indexOf(true)]!, unfit };
    }),
    typeOf: (gpu) => typeOf[gpu]!,
    ownProfile: (model, gpu) => {
      const { byType, slowest, fastest } = typed[model]!;
      return slowest === fastest ? undefined : byType[typeOf[gpu]!]!;
    },
  };
}

function offered(
  { slo, classes }: ScenarioModel,
  { byBatchSize }: LatencyTable,
  capacity: number,
  network: Network,
): OfferedType {
  const room = Math.min(slo, ...classes.map((one) => one.slo)) - delayOf(network);
  return { tightness: room > 0 ? byBatchSize[1]! / room : Infinity, capacity };
}

/**
 * A static split, for comparison: each type is a cluster of its own with the models that it can serve. Their requests
 * are dealt to the types so that all are expected to be full at the same rate (docs/algorithms.md, D9).
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
    return new SteppedClusters(pools, dealtBy(expectedOfTypes(types, options).split));
  };
}

/** Rate that unlike accelerators are expected to carry. @param dispersion - of the arrivals */
export function expectedOfTypes(
  types: readonly AcceleratorType[],
  { models, shares, network }: Pick<SimClusterOptions, "models" | "shares" | "network">,
  dispersion = 1,
): TypedCapacity {
  const { unfit } = typedModels(models, types, network);
  const pool = models.map(({ profile, slo, share }, i) => {
    const isUnfit = (type: number): boolean => unfit[i]!.some((one) => one.type === type);
    const profiles = types.map(({ times }, type) => (isUnfit(type) ? undefined : slower(profile, times)));
    return { share: shares?.[i] ?? share, slo: slo - delayOf(network), dispersion, profiles };
  });
  return typedCapacity(
    pool,
    types.map(({ gpus }) => gpus),
  );
}

/** Deals each model's requests evenly by weights: the member that is furthest behind its share has the next one. */
function dealtBy(split: readonly (readonly number[])[]): (request: SimRequest) => number {
  const behind = split.map((weights) => weights.map(() => 0));
  return ({ model }) => {
    const own = behind[model]!;
    let next = 0;
    for (const [i, weight] of split[model]!.entries()) {
      own[i]! += weight;
      if (own[i]! > own[next]!) next = i;
    }
    own[next]!--;
    return next;
  };
}
