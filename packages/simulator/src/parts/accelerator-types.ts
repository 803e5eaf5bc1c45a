/**
 * Unlike accelerators under Tutti's own policies: offers are planned with the slowest that can meet the model's SLO, a
 * batch is formed for the accelerator that is granted, and those that can't meet the SLO are not (docs/algorithms.md,
 * A3 and A4).
 */
import { type OfferedType, type TypedPoolModel, servingTypes } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import type { FastestType, UnfitTypes } from "@tutti/scheduling";
import { type GpuId, micros } from "@tutti/units";
import type { AcceleratorType, Network, ScenarioModel } from "../scenario/scenario.ts";
import type { SimClusterFactory, SimClusterOptions, SimRequest } from "../cluster/simulated-cluster.ts";
import { delayOf, halfProfile, slower } from "./part-profile.ts";
import { SteppedClusters, renumbered } from "../cluster/stepped-clusters.ts";
import { splitOverPools } from "./static-split.ts";

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

type TypedOptions = Pick<SimClusterOptions, "models" | "shares" | "network" | "interference">;

export function typedModels(options: TypedOptions, types: readonly AcceleratorType[]): TypedModels {
  const { models, network } = options;
  const typeOf = types.flatMap(({ gpus }, type) => new Array<number>(gpus).fill(type));
  const typed = models.map((model) => {
    const byType = profilesOn(types, model, options);
    const fit = servingTypes(types.map(({ gpus }, type) => offered(model, byType[type]!, gpus, network)));
    const serving = types.map((_, type) => type).filter((type) => fit[type]);
    const tables = serving.map((type) => byType[type]!);
    // As in production: the slowest for each batch, and the fastest for one request.
    const slowest = slowestOf(tables);
    const fastest = tables.reduce((least, table) => (isFaster(table, least) ? table : least));
    const isAsFast = byType.map((table) =>
      table.byBatchSize.every((time, b) => b === 0 || time <= fastest.byBatchSize[b]!),
    );
    return { byType, serving, slowest, fastest, isAsFast, isAlike: serving.every((type) => isAsFast[type]) };
  });
  return {
    models: models.map((model, i) => ({ ...model, profile: typed[i]!.slowest })),
    unfit: typed.map(({ serving }) => types.map((_, type) => ({ type })).filter(({ type }) => !serving.includes(type))),
    fastest: typed.map(({ fastest, isAsFast, isAlike }) => {
      if (isAlike) return undefined;
      return { profile: fastest, unfit: types.map((_, type) => ({ type })).filter(({ type }) => !isAsFast[type]) };
    }),
    typeOf: (gpu) => typeOf[gpu]!,
    ownProfile: (model, gpu) => {
      const { byType, isAlike } = typed[model]!;
      return isAlike ? undefined : byType[typeOf[gpu]!]!;
    },
  };
}

/** A model's latencies on each type. */
export function profilesOn(
  types: readonly AcceleratorType[],
  model: ScenarioModel,
  { models, shares, interference }: Pick<TypedOptions, "models" | "shares" | "interference">,
): readonly LatencyTable[] {
  const beside = models.filter((one, i) => (shares?.[i] ?? one.share) > 0);
  return types.map(({ times, isHalf = false }) =>
    slower(isHalf ? halfProfile(model, beside, interference) : model.profile, times),
  );
}

function slowestOf(tables: readonly LatencyTable[]): LatencyTable {
  if (tables.length === 1) return tables[0]!;
  const points = tables[0]!.toPoints().map(({ batchSize }) => {
    return { batchSize, latency: micros(Math.max(...tables.map((table) => table.latency(batchSize)))) };
  });
  return LatencyTable.fromPoints(points);
}

/** For one request, or else for the largest batch. */
function isFaster(one: LatencyTable, other: LatencyTable): boolean {
  const by = one.latency(1) - other.latency(1);
  return by < 0 || (by === 0 && one.latency(one.batchSizeMax) < other.latency(other.batchSizeMax));
}

function offered(
  { slo, classes }: ScenarioModel,
  { byBatchSize }: LatencyTable,
  gpus: number,
  network: Network,
): OfferedType {
  const room = Math.min(slo, ...classes.map((one) => one.slo)) - delayOf(network);
  const alone = byBatchSize[1]!;
  return { tightness: room > 0 ? alone / room : Infinity, capacity: gpus / alone };
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
    return new SteppedClusters(pools, dealtBy(splitOverPools(...pooled(types, options))));
  };
}

/** Models with their latencies on the types that serve them, and how many of each type there are; Poisson arrivals. */
function pooled(
  types: readonly AcceleratorType[],
  options: TypedOptions,
): [models: readonly TypedPoolModel[], counts: readonly number[]] {
  const { models, shares, network } = options;
  const { unfit } = typedModels(options, types);
  const pool = models.map((model, i) => {
    const isUnfit = (type: number): boolean => unfit[i]!.some((one) => one.type === type);
    const profiles = profilesOn(types, model, options).map((profile, type) => (isUnfit(type) ? undefined : profile));
    return { share: shares?.[i] ?? model.share, slo: model.slo - delayOf(network), dispersion: 1, profiles };
  });
  return [pool, types.map(({ gpus }) => gpus)];
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
