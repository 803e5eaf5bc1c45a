/**
 * gpulet-like: accelerators split in at most two parts each, models placed on parts by elastic partitioning.
 *
 * Source: gpulet (ATC '22), §4; docs/algorithms.md, D1 to D3 (packages/planning, `partition`). Same: a batch of b on p
 * percent takes L(b,p)·f, f the largest factor of interference of any model on the other part (D2), and the plan knows
 * it;
 *   sizes 20, 40, 50, 60, 80, 100; on a part models share time in a duty cycle.
 * Chosen: as for Nexus the accelerators are given, so the plan is that of the largest total rate they carry, in the
 * scenario's proportions (with up to
 *   four accelerators the portfolio of splits is tried too); spare ones repeat the fullest. Requests are spread and
 *   parts run as Nexus' nodes do (planned-nodes.ts). A new plan takes effect at once: starting processes of another
 *   size, 10 to 15 s in the paper, costs nothing here. Models that can't gather a batch while one runs (2·L(1) > SLO)
 *   have whole accelerators to themselves; where accelerators are too few for any split, all is packed onto whole ones,
 *   as Nexus does.
 */
import {
  type FractionModel,
  type Interference,
  type Partition,
  type Parts,
  factorAt,
  occupancyOf,
  partition,
  partitionPortfolio,
} from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { Instant } from "@tutti/units";
import { partProfile, slower } from "../parts/part-profile.ts";
import type { SimBatch, SimClusterFactory, SimClusterOptions, SimListener } from "../cluster/simulated-cluster.ts";
import { BaselineEngine } from "./engine.ts";
import { largestWithin } from "./gathering.ts";
import { onWholeAccelerators } from "./nexus.ts";
import { noParameter } from "./parameter.ts";
import { type MakePlan, type PlannedPlace, PlannedNodes } from "./planned-nodes.ts";
import type { Stream, StreamIndex } from "./streams.ts";

/** Up to so many accelerators every multiset of splits is tried: 35 of four, and 210 of six. */
const PORTFOLIO_MAX = 4;
const ROUNDS = 16;
const PARTS = 2;

export function fractions(parameter: string | undefined): SimClusterFactory {
  noParameter("fractions", parameter);
  return (options) => {
    const shares = new Float64Array(PARTS * options.gpus).fill(1);
    // Each part is an accelerator to the engine.
    const parts = { ...options, gpus: PARTS * options.gpus, listener: asParts(options.listener, shares) };
    return new BaselineEngine(parts, { inputs: "pushed" }, (engine) => {
      return new PlannedNodes(engine, onParts(engine, options, shares));
    });
  };
}

/** Batches on the accelerators that the scenario knows, and on what part of them. */
function asParts(listener: SimListener, shares: Float64Array): SimListener {
  const told = new Map<number, SimBatch>();
  return {
    dispatched: (batch, at) => {
      const part = { place: batch.gpu % PARTS, share: shares[batch.gpu]! };
      const own = { ...batch, gpu: Math.floor(batch.gpu / PARTS), part };
      told.set(batch.id, own);
      listener.dispatched?.(own, at);
    },
    refused: (request, cause, at) => listener.refused(request, cause, at),
    finished: (batch: SimBatch, begin: Instant, end: Instant, completed: boolean) => {
      const own = told.get(batch.id)!;
      told.delete(batch.id);
      listener.finished(own, begin, end, completed);
    },
  };
}

function onParts(engine: BaselineEngine, options: SimClusterOptions, shares: Float64Array): MakePlan {
  const { gpus, interference } = options;
  const overhead = engine.inputDelay + engine.respond;
  const tables = new Map<string, LatencyTable>();
  const tableOf = (stream: Stream, size: number): LatencyTable => {
    const key = `${stream.model} ${size}`;
    const known = tables.get(key) ?? partProfile(options.models[stream.model]!, size);
    tables.set(key, known);
    return known;
  };
  return (streamIndex, proportions) => {
    const modelsAt = fractionModels(streamIndex, proportions, { options, overhead, tableOf });
    const found = fullest(modelsAt, gpus, { ...(interference !== undefined && { interference }) });
    if (found === undefined) {
      const whole = onWholeAccelerators({ inputDelay: engine.inputDelay, respond: engine.respond, options });
      return whole(streamIndex, proportions).flatMap((places) => [places, []]);
    }
    return found.executors.flatMap((parts, gpu) => {
      for (let place = 0; place < PARTS; place++) shares[PARTS * gpu + place] = (parts[place]?.size ?? 0) / 100;
      return Array.from({ length: PARTS }, (_, place) =>
        placesOf(parts, place, streamIndex, { interference, tableOf }),
      );
    });
  };
}

interface Sources {
  readonly options: SimClusterOptions;
  readonly overhead: number;
  readonly tableOf: (stream: Stream, size: number) => LatencyTable;
}

/** At a total rate in requests per ms; models keep their identity, of which the partitioner remembers what it knows. */
function fractionModels(
  { streams }: StreamIndex,
  proportions: ArrayLike<number>,
  { options, overhead, tableOf }: Sources,
): (total: number) => FractionModel[] {
  const models = streams.map((stream, id) => {
    const { profile, parts } = options.models[stream.model]!;
    return {
      ...{ id, slo: (stream.slo - overhead) / 1000, batchMax: Math.max(1, largestWithin(profile, stream.slo / 2)) },
      latency: (batchSize: number, size: number) => tableOf(stream, size).byBatchSize[batchSize]! / 1000,
      ...{ cacheUse: parts?.cacheUse ?? 0, bandwidthUse: parts?.bandwidthUse ?? 0 },
    };
  });
  return (total) => models.map((model, i) => ({ ...model, rate: total * proportions[i]! }));
}

type Split = Pick<Partition, "executors">;

/** The plan of the largest total rate; spare accelerators repeat the fullest. */
function fullest(
  modelsAt: (total: number) => readonly FractionModel[],
  gpus: number,
  options: { readonly interference?: Interference },
): Split | undefined {
  const planAt = (total: number): Split | undefined => {
    const models = modelsAt(total);
    const alone = models.filter((model) => !canGather(model)).flatMap(oneByOne);
    const rest = models.filter(canGather);
    if (alone.length > gpus || rest.length === 0) return alone.length > gpus ? undefined : { executors: alone };
    const asked = { executors: gpus - alone.length, ...options };
    const found = gpus <= PORTFOLIO_MAX ? partitionPortfolio(rest, asked) : partition(rest, asked);
    return found && { executors: [...alone, ...found.executors] };
  };
  // A whole accelerator never does more than one request per least latency of one in a batch.
  const perRequest = modelsAt(1).reduce((sum, { rate, batchMax, latency }) => {
    return sum + (rate * latency(batchMax, 100)) / batchMax;
  }, 0);
  let high = (2 * PARTS * gpus) / perRequest;
  let low = high / 4096;
  let best = planAt(low);
  for (let i = 0; best !== undefined && i < ROUNDS; i++) {
    const middle = Math.sqrt(low * high);
    const found = planAt(middle);
    if (found === undefined) high = middle;
    else [low, best] = [middle, found];
  }
  return best && { executors: repeated(best.executors, gpus) };
}

/** While one request runs, another can gather. */
const canGather = ({ latency, slo }: FractionModel): boolean => 2 * latency(1, 100) <= slo;

/** Whole accelerators for requests one by one, as Nexus' plan has them for such a model. */
function oneByOne(model: FractionModel): Parts[] {
  const dutyCycle = model.latency(1, 100);
  const count = Math.max(1, Math.ceil(model.rate * dutyCycle - 1e-9));
  const item = { model, rate: model.rate / count, batchSize: 1 };
  return Array.from({ length: count }, () => [{ size: 100, plan: { items: [item], dutyCycle, isSaturated: true } }]);
}

function repeated(executors: readonly Parts[], gpus: number): readonly Parts[] {
  const loadOf = (parts: Parts): number =>
    parts.reduce((sum, { plan, size }) => sum + (plan === undefined ? 0 : occupancyOf(plan, size, () => 1) * size), 0);
  const used = executors.filter((parts) => loadOf(parts) > 0).toSorted((a, b) => loadOf(b) - loadOf(a));
  let spare = 0;
  return Array.from({ length: gpus }, (_, i) => {
    const parts = executors[i];
    return parts !== undefined && loadOf(parts) > 0 ? parts : used[spare++ % used.length]!;
  });
}

function placesOf(
  parts: Parts,
  place: number,
  { streams }: StreamIndex,
  { interference, tableOf }: Pick<Sources, "tableOf"> & { readonly interference: Interference | undefined },
): readonly PlannedPlace[] {
  const part = parts[place];
  if (part?.plan === undefined) return [];
  return part.plan.items.map(({ model, batchSize, rate }) => {
    const factor = factorAt(model, parts, place, interference);
    const table = tableOf(streams[model.id]!, part.size);
    return { stream: model.id, batchSize, rate, profile: slower(table, factor) };
  });
}
