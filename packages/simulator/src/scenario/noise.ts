/**
 * Disturbances by other work on a machine: the whole machine, the process of the scheduler or one accelerator stands
 * still, and some runs take longer than others.
 *
 *   NO1. Noise depends on the seed alone: policies and rates see the same standstills at the same moments.
 *   NO2. Schedulers plan with the scenario's profiles; they notice noise only by its effects.
 */
import { LatencyTable } from "@tutti/profile";
import { type Instant, type Micros, Prng } from "@tutti/units";

export interface Noise {
  readonly stalls: readonly StallProcess[];
  /** Default: every run takes as long as planned. */
  readonly slow?: SlowRuns | undefined;
  /**
   * Whether runs go on while their accelerator's process stands still, as on a GPU or an emulated accelerator: only
   * their ends are late. One process has all accelerators, which then stand together. Default: they wait.
   */
  readonly runsGoOn?: boolean | undefined;
  /** Code that is cold at the beginning: for so long runs take `factor` times as long. Default: none is. */
  readonly cold?: { readonly factor: number; readonly until: Micros } | undefined;
}

/**
 * "scheduler": runs go on, and what the scheduler would hear meanwhile (arrivals, ends of runs, timers) it hears at the
 * end. "accelerator": runs take longer, on each accelerator by stalls of its own. "machine": both, for all of them.
 */
export const STALL_SCOPES = ["machine", "scheduler", "accelerator"] as const;
export type StallScope = (typeof STALL_SCOPES)[number];

export type StallProcess =
  /** Exponential gaps of that mean, and lengths that are lognormal with this median and 99th percentile. */
  | {
      readonly kind: "drawn";
      readonly scope: StallScope;
      readonly every: Micros;
      readonly median: Micros;
      readonly p99: Micros;
    }
  /** The recorded stalls, repeated, from a place that depends on the seed. */
  | {
      readonly kind: "recorded";
      readonly scope: StallScope;
      readonly length: Micros;
      readonly stalls: readonly Stall[];
    }
  /** These stalls, in order, at these moments of the scenario. */
  | { readonly kind: "given"; readonly scope: StallScope; readonly stalls: readonly Stall[] };

/** A stall; `at` counts from the beginning of the recording, or of the scenario. */
export interface Stall {
  readonly at: Micros;
  readonly length: Micros;
}

export type SlowRuns =
  /** `share` of the runs take up to `factor` times their profile's latency, uniformly distributed. */
  | { readonly kind: "drawn"; readonly share: number; readonly factor: number }
  /**
   * Factor by which work takes longer in each stretch of length `every`, one stretch after the other; each accelerator
   * begins at a stretch of its own.
   */
  | { readonly kind: "recorded"; readonly every: Micros; readonly factors: readonly number[] };

/** Number of sigmas from the median to the 99th percentile of a lognormal distribution. */
const Z99 = 2.3263478740408408;

/** Standstills in order, generated as far as they have been asked for. */
class StallTrack {
  readonly #process: StallProcess;
  readonly #prng: Prng;
  readonly #from: number[] = [];
  readonly #until: number[] = [];
  /** Next beginning of the recording. */
  #lap: number;

  constructor(process: StallProcess, prng: Prng) {
    this.#process = process;
    this.#prng = prng;
    this.#lap = process.kind === "recorded" ? -prng.nextInt(process.length) : 0;
  }

  /** The first stall that ends after `at`. */
  next(at: number): { readonly from: number; readonly until: number } {
    while ((this.#until.at(-1) ?? -1) <= at) this.#extend();
    const i = this.#firstEndingAfter(at);
    return { from: this.#from[i]!, until: this.#until[i]! };
  }

  #firstEndingAfter(at: number): number {
    let [low, high] = [0, this.#until.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#until[middle]! <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #extend(): void {
    const process = this.#process;
    if (process.kind === "recorded") {
      for (const { at, length } of process.stalls) this.#add(this.#lap + at, length);
      this.#lap += process.length;
      if (process.stalls.length === 0) this.#add(Infinity, 0);
    } else if (process.kind === "given") {
      for (const { at, length } of process.stalls) this.#add(at, length);
      this.#add(Infinity, 0);
    } else {
      const { every, median, p99 } = process;
      const gap = this.#prng.nextExponential(1 / every);
      const length = median * (p99 / median) ** (this.#prng.nextNormal() / Z99);
      this.#add((this.#until.at(-1) ?? 0) + Math.ceil(gap), Math.max(1, Math.round(length)));
    }
  }
  #add(from: number, length: number): void {
    this.#from.push(from);
    this.#until.push(from + length);
  }
}

/** The noise of one run of a scenario. */
export class NoiseSource {
  /** Stalls of the machine and of the scheduler. */
  readonly #deaf: readonly StallTrack[];
  readonly #byGpu: readonly (readonly StallTrack[])[];
  readonly #slow: SlowRuns | undefined;
  readonly #runsGoOn: boolean;
  readonly #cold: NonNullable<Noise["cold"]>;
  readonly #offsets: readonly number[];
  readonly #prngs: readonly Prng[];

  constructor(
    { stalls, slow, runsGoOn = false, cold = { factor: 1, until: 0 as Micros } }: Noise,
    { seed, gpus }: { readonly seed: number; readonly gpus: number },
  ) {
    const root = new Prng(new Prng(seed).nextUint32() ^ SALT);
    const tracks = (scope: StallScope, prng: Prng): StallTrack[] =>
      stalls.filter((process) => process.scope === scope).map((process) => new StallTrack(process, prng.fork()));
    const machine = tracks("machine", root);
    this.#deaf = [...machine, ...tracks("scheduler", root)];
    this.#prngs = Array.from({ length: gpus }, () => root.fork());
    const own = this.#prngs.map((prng) => [...machine, ...tracks("accelerator", prng)]);
    this.#byGpu = runsGoOn ? own.map(() => own[0]!) : own;
    this.#runsGoOn = runsGoOn;
    this.#slow = slow;
    this.#cold = cold;
    const length = slow?.kind === "recorded" ? slow.every * slow.factors.length : 1;
    this.#offsets = this.#prngs.map((prng) => prng.nextInt(length));
  }

  /** Whether the scheduler may stand still. */
  get delaysScheduler(): boolean {
    return this.#deaf.length > 0;
  }
  /** Whether runs may take longer. */
  get delaysRuns(): boolean {
    return this.#slow !== undefined || this.#cold.until > 0 || this.#byGpu.some((tracks) => tracks.length > 0);
  }
  /** Moment at which the scheduler hears of an event at `at`. */
  heardAt(at: Instant): Instant {
    return (endOf(this.#deaf, at, 1) - 1) as Instant;
  }

  /**
   * Run time on an accelerator of a run that begins at `begin` and takes `planned` by its profile. It is asked for once
   * for each run, in order by accelerator.
   */
  runTime(gpu: number, begin: Instant, planned: Micros): Micros {
    const { factor, until } = this.#cold;
    const alone = begin < until ? Math.ceil(factor * planned) : planned;
    const slow = this.#slow;
    const place = { offset: this.#offsets[gpu]!, begin, work: alone };
    const work = slow === undefined ? alone : slowed(slow, this.#prngs[gpu]!, place);
    const tracks = this.#byGpu[gpu]!;
    const end = this.#runsGoOn ? endOf(tracks, begin + work, 1) - 1 : endOf(tracks, begin, work);
    return (end - begin) as Micros;
  }

  /**
   * Time that an accelerator's process takes for what it begins at `begin`, and does in `alone` without standstills.
   */
  delay(gpu: number, begin: Instant, alone: Micros): Micros {
    return (endOf(this.#byGpu[gpu]!, begin, alone) - begin) as Micros;
  }
}

const SALT = 0x6e6f_6973;

/** End of `work` that begins at `begin` and goes on while none of the tracks stands. */
function endOf(tracks: readonly StallTrack[], begin: number, work: number): number {
  let [now, left] = [begin, work];
  for (;;) {
    let [from, until] = [Infinity, Infinity];
    for (const track of tracks) {
      const stall = track.next(now);
      if (stall.from < from) ({ from, until } = stall);
    }
    if (now + left <= from) return now + left;
    if (from > now) left -= from - now;
    now = until;
  }
}

/** Run time as production's profiler measures it: the median for a run that takes `alone` without noise. */
export function plannedRun({ slow }: Noise, alone: Micros): Micros {
  if (slow === undefined) return alone;
  return Math.ceil(factorOf(slow, alone) * alone) as Micros;
}

/** A profile with run times as production's profiler measures them under noise. */
export function underNoise(profile: LatencyTable, noise: Noise | undefined): LatencyTable {
  if (noise?.slow === undefined) return profile;
  const points = profile
    .toPoints()
    .map(({ batchSize, latency }) => ({ batchSize, latency: plannedRun(noise, latency) }));
  return LatencyTable.fromPoints(points, { batchSizeMax: profile.batchSizeMax });
}

const MEDIAN = 0.5;
/** By recording: the median of the mean over a number of stretches. */
const known = new WeakMap<SlowRuns, Map<number, number>>();

function factorOf(slow: SlowRuns, alone: Micros): number {
  if (slow.kind === "drawn") return drawnFactor(slow, MEDIAN);
  const { every, factors } = slow;
  const stretches = Math.max(1, Math.min(factors.length, Math.round(alone / every)));
  const means = known.get(slow) ?? new Map<number, number>();
  known.set(slow, means);
  let factor = means.get(stretches);
  if (factor === undefined) means.set(stretches, (factor = quantileOfMeans(factors, stretches)));
  return factor;
}

function quantileOfMeans(factors: readonly number[], stretches: number): number {
  let sum = 0;
  for (let i = 0; i < stretches; i++) sum += factors[i]!;
  const means = factors.map((factor, i) => {
    const mean = sum / stretches;
    sum += factors[(i + stretches) % factors.length]! - factor;
    return mean;
  });
  means.sort((a, b) => a - b);
  return means[Math.floor(MEDIAN * means.length)]!;
}

const drawnFactor = ({ share, factor }: { readonly share: number; readonly factor: number }, draw: number): number =>
  draw <= 1 - share ? 1 : 1 + (factor - 1) * ((draw - (1 - share)) / share);

/** Time of `work` on an accelerator that begins at `begin`, without standstills. */
function slowed(
  slow: SlowRuns,
  prng: Prng,
  { offset, begin, work }: { offset: number; begin: number; work: number },
): number {
  if (slow.kind === "drawn") return Math.ceil(drawnFactor(slow, prng.nextFloat()) * work);
  const { every, factors } = slow;
  let left = work;
  for (let now = offset + begin; ;) {
    const place = Math.floor(now / every);
    const factor = factors[place % factors.length]!;
    const room = (place + 1) * every - now;
    if (left * factor <= room) return Math.ceil(now + left * factor - offset - begin);
    left -= room / factor;
    now += room;
  }
}
