/**
 * A replay: recorded arrivals, run by the simulator with the requested number of accelerators and policy. Pure, and
 * slow: it runs on a thread of its own.
 */
import { type ReplayAnswer, type ReplayWish } from "../index.ts";
import { LatencyTable } from "@tutti/profile";
import type { ProfilePoints } from "@tutti/protocol";
import {
  type Network,
  type Scenario,
  type ScenarioModel,
  type SimBatch,
  type TraceEntry,
  simulateDetailed,
} from "@tutti/simulator";
import { type Instant, type Micros, micros } from "@tutti/units";
import type { RecordedArrivals } from "./arrival-record.ts";

/** Largest number of bars that a page can draw well. */
export const REPLAY_BATCHES_MAX = 20_000;

/** A model with its current planning data: l(b), and the mean run times of its batches. */
export interface ReplayModel {
  readonly name: string;
  readonly slo: Micros;
  readonly batchSizeMax: number;
  readonly profile: ProfilePoints;
  readonly mean: ProfilePoints;
}

export interface ReplayJob {
  readonly wish: ReplayWish;
  readonly models: readonly ReplayModel[];
  readonly recorded: RecordedArrivals;
  /** As measured now. */
  readonly network: Network;
}

/** @throws {Error} naming the problem with the wish: no arrivals, an unknown policy */
export function runReplay({ wish, models, recorded, network }: ReplayJob): ReplayAnswer {
  const used = new Set(recorded.stream);
  const wanted = new Set([...used].map((stream) => recorded.streams[stream]!.model));
  const known = new Map(models.map((model) => [model.name, model]));
  const without = [...wanted]
    .filter((name) => !known.has(name))
    .sort()
    .map((model) => ({ model, text: "it isn't served now, or hasn't been measured" }));
  const names = [...wanted].filter((name) => known.has(name)).sort();
  const entries = entriesOf(recorded, new Set(names));
  if (entries.length === 0) throw new Error("no requests came in that time: there is nothing to replay");
  const duration = micros(Math.max(1_000_000, entries.at(-1)!.at + 1));
  const scenario: Scenario = {
    seed: 1,
    duration,
    warmup: micros(0),
    gpus: wish.gpus,
    policy: wish.policy,
    gather: "target",
    rate: 0, // the trace has its own rate
    arrivals: { process: "trace", entries },
    network,
    models: names.map((name) => scenarioModel(known.get(name)!, 1 / names.length)),
    phases: [],
  };
  const bars = new Bars();
  const { result } = simulateDetailed(scenario, { listener: bars });
  return {
    gpus: wish.gpus,
    policy: wish.policy,
    seconds: duration / 1e6,
    arrivals: entries.length,
    goodRps: result.goodRps,
    offeredRps: result.offeredRps,
    badRate: result.badRate,
    busyFraction: result.gpu.busyFraction,
    used: result.gpu.used,
    batchMean: result.batchSize.mean,
    queueP99Ms: result.queueDelayMs.p99,
    models: result.models.map(({ name, offeredRps, badRate, batchMean, p99Ms }) => {
      return { name, offeredRps, badRate, batchMean, p99Ms, ...slosOf(entries, known.get(name)!) };
    }),
    rows: bars.rows,
    left: bars.left,
    without,
  };
}

function entriesOf({ streams, stream, at }: RecordedArrivals, names: ReadonlySet<string>): TraceEntry[] {
  const entries: TraceEntry[] = [];
  let first: number | undefined;
  for (let i = 0; i < at.length; i++) {
    const { model, app, slo } = streams[stream[i]!]!;
    if (!names.has(model)) continue;
    first ??= at[i]!;
    entries.push({ at: micros(at[i]! - first), model, app, slo });
  }
  return entries;
}

function slosOf(entries: readonly TraceEntry[], { name, slo: byDefault }: ReplayModel) {
  let [least, most] = [Infinity, 0];
  for (const { model, slo = byDefault } of entries) {
    if (model !== name) continue;
    least = Math.min(least, slo);
    most = Math.max(most, slo);
  }
  return { sloLeastMs: least / 1_000, sloMostMs: most / 1_000 };
}

function scenarioModel({ name, slo, batchSizeMax, profile, mean }: ReplayModel, share: number): ScenarioModel {
  const table = (points: ProfilePoints): LatencyTable => LatencyTable.fromPoints(points, { batchSizeMax });
  return {
    ...{ name, slo, share, classes: [] },
    profile: table(profile),
    ...(mean.length > 0 && { runs: table(mean) }),
  };
}

/** The first batches of the replay, as the page draws them. */
class Bars {
  readonly #rows: number[][] = [];
  left = 0;

  refused(): void {
    // The judge counts refusals.
  }

  finished({ model, gpu, requests }: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    if (this.#rows.length >= REPLAY_BATCHES_MAX) return void this.left++;
    let first = begin as number;
    for (const { arrivedAt } of requests) if (arrivedAt < first) first = arrivedAt;
    this.#rows.push([model, gpu, requests.length, completed ? 0 : requests.length, first, begin, begin, end]);
  }

  get rows(): number[] {
    return this.#rows.flat();
  }
}
