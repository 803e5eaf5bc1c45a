import type { Alarm, Clock } from "@tutti/ports/clock";
import { type ModelSpec, type ProfileMeasured, type ProfileWanted, SLO_US_MAX } from "@tutti/protocol";
import { type Instant, type Micros, Prng, after, before, micros, millis, seconds } from "@tutti/units";
import type { GpuSlot } from "../batches/gpu-slot.ts";
import { someInputs } from "../models/warm-runs.ts";

export interface ProberOptions {
  readonly clock: Clock;
  readonly specOf: (model: string) => ModelSpec | undefined;
  /** Rows to measure with instead of random ones, by model and bucket. */
  readonly samplesOf: (model: string, bucket: number) => readonly Uint8Array[];
  readonly done: (measured: Omit<ProfileMeasured, "executor">) => void;
  /** The accelerator is occupied until then without a grant, so that the ranker grants nothing meanwhile. */
  readonly onOccupied: (slot: GpuSlot, freeAt: Instant) => void;
}

/** Bound of waiting probes; further ones are dropped, and requested again (T7). */
const PROBES_MAX = 1_024;
/**
 * An accelerator is in service if a batch came to it within this time. Rarer traffic would hardly notice a probe in its
 * way.
 */
const SERVES = seconds(10);

/**
 * Measures l(b) in idle time. It makes one run at a time, only when nothing is accepted, and announces it to the
 * ranker, since a run can't be cancelled. After each run it leaves an accelerator that is in service free for as long,
 * so that a model which is loaded meanwhile takes at most half of the idle time.
 */
export class Prober {
  readonly #options: ProberOptions;
  readonly #queue: Probe[] = [];
  readonly #alarm: Alarm;
  #running = false;

  constructor(options: ProberOptions) {
    this.#options = options;
    this.#alarm = options.clock.alarm(() => this.#next());
  }

  want(wanted: ProfileWanted, slot: GpuSlot): void {
    const known = this.#queue.some(
      ({ wanted: other, slot: at }) => at === slot && other.number === wanted.number && other.bucket === wanted.bucket,
    );
    if (known || this.#queue.length >= PROBES_MAX) return;
    const told = knownSamples(wanted, slot);
    this.#queue.push({
      wanted: {
        ...wanted,
        batchSizes: told === undefined ? (slot.engine.runSizes?.(wanted.model) ?? wanted.batchSizes) : [],
      },
      slot,
      samples: told ?? [],
      sizeIndex: 0,
      spentUs: 0,
      lastUs: 0,
      seed: wanted.number * 64 + wanted.bucket,
    });
    this.#next();
  }

  /** Whether it waits for time on an accelerator, which goes before jobs. */
  waitsFor(slot: GpuSlot): boolean {
    return this.#queue[0]?.slot === slot;
  }

  stop(): void {
    this.#queue.length = 0;
    this.#alarm.clear();
  }

  #next(): void {
    const probe = this.#queue[0];
    if (probe === undefined || this.#running) return;
    const spec = this.#options.specOf(probe.wanted.model);
    if (spec === undefined || spec.number !== probe.wanted.number)
      return this.#finish(probe, "the model is not loaded here");
    if (probe.wanted.bucket >= spec.buckets.length || Math.max(0, ...probe.wanted.batchSizes) > spec.batchSizeMax)
      return this.#finish(probe, "another version of the model is loaded here");
    const batchSize = probe.wanted.batchSizes[probe.sizeIndex];
    if (batchSize === undefined) return this.#finish(probe, "");
    const now = this.#options.clock.now();
    if (probe.slot.accepted > 0) return this.#alarm.set(after(now, millis(2)));
    this.#running = true;
    const until = after(now, micros(Math.round(probe.lastUs * 1.5)));
    probe.slot.occupy(until);
    this.#options.onOccupied(probe.slot, until);
    const rows = this.#options.samplesOf(spec.name, probe.wanted.bucket);
    const { inputs, units } = someInputs(spec, {
      bucket: probe.wanted.bucket,
      batchSize,
      samples: rows,
      prng: new Prng(probe.seed++),
    });
    const { bucket } = probe.wanted;
    const batch = { model: spec.name, bucket, batchSize, inputs, ...(units && { units }) };
    probe.slot.engine.run(batch, (outcome) => {
      this.#running = false;
      const at = this.#options.clock.now();
      probe.slot.vacate(at);
      this.#options.onOccupied(probe.slot, probe.slot.freeAt(at));
      if (outcome.kind === "failed") return this.#finish(probe, outcome.reason);
      const isMeasured = note(probe, batchSize, outcome.run);
      if (isMeasured && Math.min(...probe.samples.at(-1)!.runs) > spec.slo) {
        extrapolate(probe);
        return this.#finish(probe, "");
      }
      // The first run of a size warms the engine up and measures nothing.
      const isWarmUp = probe.samples.at(-1)?.runs.length === 0;
      const isServing = probe.slot.isUsedSince(before(at, SERVES));
      this.#alarm.set(after(at, isServing && !isWarmUp ? outcome.run : micros(0)));
    });
  }

  #finish(probe: Probe, failure: string): void {
    this.#queue.shift();
    const { gpu, model, number, bucket } = probe.wanted;
    const { engine } = probe.slot;
    const samples = engine.runSizes?.(model) === undefined ? probe.samples : asSteps(probe.samples);
    this.#options.done({ gpu, type: engine.type, model, number, bucket, samples, failure });
    this.#next();
  }
}

/** Latencies of an engine that knows them: nothing has to run. */
function knownSamples({ model, bucket, batchSizes }: ProfileWanted, { engine }: GpuSlot): Probe["samples"] | undefined {
  const samples = batchSizes.map((batchSize) => ({
    batchSize,
    runs: [engine.latencyOf?.(model, bucket, batchSize)].filter((run) => run !== undefined),
  }));
  return samples.some(({ runs }) => runs.length === 0) ? undefined : samples;
}

/** Says of the size after each one that it takes as long as the next: latencies between sizes are read off the line. */
function asSteps(samples: Probe["samples"]): Probe["samples"] {
  return samples.flatMap((sample, i) => {
    const least = (samples[i - 1]?.batchSize ?? 0) + 1;
    return least < sample.batchSize ? [{ batchSize: least, runs: sample.runs }, sample] : [sample];
  });
}

/** Fewest runs of one size. Long runs vary less in proportion to their length, and keep others waiting. */
const RUNS_LEAST = 5;
const RUNS_LEAST_OF_LONG = 3;
/** From here on one run of a size is enough, and after a size of such runs none is needed to warm up the next. */
const LONG = seconds(3);

interface Probe {
  readonly wanted: ProfileWanted;
  readonly slot: GpuSlot;
  readonly samples: { batchSize: number; runs: number[] }[];
  sizeIndex: number;
  spentUs: number;
  lastUs: number;
  seed: number;
}

/** @returns whether the size is measured now */
function note(probe: Probe, batchSize: number, run: Micros): boolean {
  const before = probe.lastUs;
  probe.lastUs = run;
  let sample = probe.samples.at(-1);
  if (sample?.batchSize !== batchSize) {
    sample = { batchSize, runs: [] };
    probe.samples.push(sample);
    probe.spentUs = 0;
    if (Math.min(before, run) < LONG) return false; // warm-up
  }
  sample.runs.push(run);
  probe.spentUs += run;
  const { runs, budget } = probe.wanted;
  const least = run >= LONG ? 1 : run >= budget ? RUNS_LEAST_OF_LONG : RUNS_LEAST;
  const isMeasured = sample.runs.length >= runs || (probe.spentUs >= budget && sample.runs.length >= least);
  if (isMeasured) probe.sizeIndex++;
  return isMeasured;
}

/**
 * Says of the sizes after the last one that their rows take as long. No request meets its SLO in a batch that takes
 * longer than that, so measuring them would only hold the accelerator.
 */
function extrapolate(probe: Probe): void {
  const { batchSize, runs } = probe.samples.at(-1)!;
  const perRow = Math.min(...runs) / batchSize;
  for (const larger of probe.wanted.batchSizes.slice(probe.sizeIndex))
    probe.samples.push({ batchSize: larger, runs: [Math.min(SLO_US_MAX, Math.ceil(larger * perRow))] });
}
