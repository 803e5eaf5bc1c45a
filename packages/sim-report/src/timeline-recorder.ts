/**
 * TimelineRecorder: records a run for a page while it runs, with each batch in columns, and tallies of everything.
 *
 *   TIMELINE-1. Bounded (T7): at most `batchesMax` batches and `refusalsMax` refusals are kept, the first ones; `seen`
 *               goes on counting, and the page says that it was cut. Tallies have a fixed size and miss nothing.
 *   TIMELINE-2. Tallies count the same requests as the result: those that arrived after the warm-up, good when the
 *               answer is there by the deadline. The columns hold the warm-up too.
 */
import type { Scenario, SimBatch, SimListener, SimRefusal, SimRequest } from "@tutti/simulator";
import { BATCH_SIZE_LIMIT } from "@tutti/profile";
import type { Instant, Micros } from "@tutti/units";

export const BATCHES_MAX = 50_000;
export const REFUSALS_MAX = 50_000;

/** All times in µs since the beginning of the run. Row i of every column is one batch, in the order of their ends. */
export interface BatchColumns {
  readonly seen: number;
  readonly gpu: Uint32Array;
  readonly model: Uint32Array;
  readonly size: Uint32Array;
  readonly begin: Float64Array;
  readonly end: Float64Array;
  /** 0 where the batch was preempted. */
  readonly completed: Uint8Array;
}

/** One row for each refused request, in the order of the refusals. */
export interface RefusalColumns {
  readonly seen: number;
  readonly at: Float64Array;
  readonly model: Uint32Array;
  /** Index into REFUSAL_CAUSES. */
  readonly cause: Uint8Array;
}

export const REFUSAL_CAUSES: readonly SimRefusal[] = ["infeasible", "overloaded", "preempted", "withdrawn"];

/** Counts of requests by their arrival, warm-up included; `width` µs a bin, the last bin takes everything beyond. */
export interface RateBins {
  readonly width: Micros;
  readonly good: Float64Array;
  readonly late: Float64Array;
  readonly refused: Float64Array;
}

/** Counts by length, `width` µs a bin; the last takes everything beyond. */
export interface DelayBins {
  readonly width: Micros;
  readonly counts: Float64Array;
}

export interface TimelineRecording {
  readonly batches: BatchColumns;
  readonly refusals: RefusalColumns;
  /** Batches that completed, by size; index 0 stays empty. */
  readonly batchSizes: Float64Array;
  /** From arrival to the start of the batch, of requests that ran to the end. */
  readonly queueDelays: DelayBins;
  readonly rates: RateBins;
  /** µs of [warm-up, duration] in which each accelerator ran something, preempted batches included. */
  readonly busy: Float64Array;
}

export interface TimelineRecorderOptions {
  readonly batchesMax?: number;
  readonly refusalsMax?: number;
}

const RATE_BINS = 100;
const DELAY_BINS = 200;

export class TimelineRecorder implements SimListener {
  readonly #scenario: Scenario;
  readonly #batches: KeptBatches;
  readonly #refusals: KeptRefusals;
  #batchSizes = new Float64Array(64);
  readonly #queueDelays: DelayBins;
  readonly #rates: RateBins;
  readonly #busy: Float64Array;

  constructor(scenario: Scenario, options: TimelineRecorderOptions = {}) {
    this.#scenario = scenario;
    this.#batches = new KeptBatches(options.batchesMax ?? BATCHES_MAX);
    this.#refusals = new KeptRefusals(options.refusalsMax ?? REFUSALS_MAX);
    this.#queueDelays = {
      width: roundWidth(longestSlo(scenario) / DELAY_BINS),
      counts: new Float64Array(DELAY_BINS + 1),
    };
    const width = roundWidth(scenario.duration / RATE_BINS);
    const bins = Math.max(1, Math.ceil(scenario.duration / width));
    this.#rates = {
      width,
      good: new Float64Array(bins),
      late: new Float64Array(bins),
      refused: new Float64Array(bins),
    };
    this.#busy = new Float64Array(scenario.gpus);
  }

  refused(request: SimRequest, cause: SimRefusal, at: Instant): void {
    this.#refusals.add(at, request.model, REFUSAL_CAUSES.indexOf(cause));
    count(this.#rates.refused, request.arrivedAt / this.#rates.width);
  }

  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    const { warmup, duration, network } = this.#scenario;
    this.#batches.add(batch, begin, end, completed);
    const busy = Math.min(end, duration) - Math.max(begin, warmup);
    if (busy > 0 && batch.gpu < this.#busy.length) this.#busy[batch.gpu]! += busy * (batch.part?.share ?? 1);
    if (!completed) return; // its requests are reported separately
    if (begin >= warmup && begin < duration) this.#countSize(batch.requests.length);
    for (const { arrivedAt, deadline } of batch.requests) {
      if (arrivedAt >= warmup) count(this.#queueDelays.counts, (begin - arrivedAt) / this.#queueDelays.width);
      const bins = end + network.respond <= deadline ? this.#rates.good : this.#rates.late;
      count(bins, arrivedAt / this.#rates.width);
    }
  }

  #countSize(size: number): void {
    if (size >= this.#batchSizes.length) {
      const length = Math.min(BATCH_SIZE_LIMIT + 1, Math.max(size + 1, this.#batchSizes.length * 2));
      this.#batchSizes = enlarged(this.#batchSizes, length);
    }
    count(this.#batchSizes, size);
  }

  /** The recording so far; later events don't change it. */
  recording(): TimelineRecording {
    return {
      batches: this.#batches.columns(),
      refusals: this.#refusals.columns(),
      batchSizes: this.#batchSizes.slice(0, 1 + this.#batchSizes.findLastIndex((seen) => seen > 0)),
      queueDelays: { width: this.#queueDelays.width, counts: this.#queueDelays.counts.slice() },
      rates: {
        width: this.#rates.width,
        good: this.#rates.good.slice(),
        late: this.#rates.late.slice(),
        refused: this.#rates.refused.slice(),
      },
      busy: this.#busy.slice(),
    };
  }
}

class KeptBatches {
  readonly #max: number;
  #seen = 0;
  #gpu = new Uint32Array(256);
  #model = new Uint32Array(256);
  #size = new Uint32Array(256);
  #begin = new Float64Array(256);
  #end = new Float64Array(256);
  #completed = new Uint8Array(256);

  constructor(max: number) {
    this.#max = max;
  }

  add(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    const i = this.#seen++;
    if (i >= this.#max) return; // TIMELINE-1
    if (i === this.#gpu.length) this.#grow(2 * i);
    this.#gpu[i] = batch.gpu;
    this.#model[i] = batch.model;
    this.#size[i] = batch.requests.length;
    this.#begin[i] = begin;
    this.#end[i] = end;
    this.#completed[i] = completed ? 1 : 0;
  }

  #grow(length: number): void {
    this.#gpu = enlarged(this.#gpu, length);
    this.#model = enlarged(this.#model, length);
    this.#size = enlarged(this.#size, length);
    this.#begin = enlarged(this.#begin, length);
    this.#end = enlarged(this.#end, length);
    this.#completed = enlarged(this.#completed, length);
  }

  columns(): BatchColumns {
    const kept = Math.min(this.#seen, this.#max);
    return {
      seen: this.#seen,
      gpu: this.#gpu.slice(0, kept),
      model: this.#model.slice(0, kept),
      size: this.#size.slice(0, kept),
      begin: this.#begin.slice(0, kept),
      end: this.#end.slice(0, kept),
      completed: this.#completed.slice(0, kept),
    };
  }
}

class KeptRefusals {
  readonly #max: number;
  #seen = 0;
  #at = new Float64Array(256);
  #model = new Uint32Array(256);
  #cause = new Uint8Array(256);

  constructor(max: number) {
    this.#max = max;
  }

  add(at: Instant, model: number, cause: number): void {
    const i = this.#seen++;
    if (i >= this.#max) return; // TIMELINE-1
    if (i === this.#at.length) {
      this.#at = enlarged(this.#at, 2 * i);
      this.#model = enlarged(this.#model, 2 * i);
      this.#cause = enlarged(this.#cause, 2 * i);
    }
    this.#at[i] = at;
    this.#model[i] = model;
    this.#cause[i] = cause;
  }

  columns(): RefusalColumns {
    const kept = Math.min(this.#seen, this.#max);
    return {
      seen: this.#seen,
      at: this.#at.slice(0, kept),
      model: this.#model.slice(0, kept),
      cause: this.#cause.slice(0, kept),
    };
  }
}

const longestSlo = (scenario: Scenario): number =>
  Math.max(...scenario.models.flatMap((model) => [model.slo, ...model.classes.map(({ slo }) => slo)]));

/** The next of 1, 2, 5, 10, 20, 50 …: bins of a round width. */
function roundWidth(least: number): Micros {
  let step = 1;
  for (;;) {
    for (const factor of [1, 2, 5]) if (step * factor >= least) return (step * factor) as Micros;
    step *= 10;
  }
}

function count(bins: Float64Array, position: number): void {
  const bin = Math.max(0, Math.min(bins.length - 1, Math.floor(position)));
  bins[bin]! += 1;
}

function enlarged<A extends Float64Array | Uint32Array | Uint8Array>(array: A, length: number): A {
  const larger = new (array.constructor as new (length: number) => A)(length);
  larger.set(array);
  return larger;
}
