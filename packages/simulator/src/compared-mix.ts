/** Judges the default policy on one random mix: beside the best of its rivals, and beside the bounds. */
import { micros } from "@tutti/units";
import { BAD_RATE_MAX, type GoodputBound } from "./bounds/bounds.ts";
import { type Goodput, type Judged, goodput } from "./goodput.ts";
import { BAD_LEAST, MIX_DURATION_MAX } from "./scenario/random-mix.ts";
import type { Scenario } from "./scenario/scenario.ts";

/** Outcome of one random mix. Rates are goodputs in requests per second; 0: none was found. */
export interface ComparedMix {
  readonly seed: number;
  readonly gpus: number;
  readonly models: number;
  readonly arrivals: string;
  readonly goodputRps: number;
  /** The best other policy, with its goodput. */
  readonly rival: string;
  readonly rivalRps: number;
  /** The clairvoyant bound. */
  readonly boundRps: number;
  /** The non-preemptive bound; the clairvoyant one where no lower one is known. */
  readonly nonPreemptiveRps: number;
  /** Requests of the least popular model that 1 % is, at the default's goodput. */
  readonly badLeast: number;
}

/** Runs simulations and computes bounds, here or on other threads. */
export interface MixPool {
  run(scenario: Scenario): Promise<Judged>;
  bound(scenario: Scenario): Promise<GoodputBound>;
  nonPreemptive(scenario: Scenario, clairvoyantRps: number): Promise<number>;
}

/** Rate at which a rival is tried before its goodput is searched, as a multiple of the best rival's goodput. */
const BETTER = 1.01;
/** A run is made longer than it should need to be, since goodput falls as bursts become rarer and larger. */
const LONGER = 1.2;

/** @param rivals - those that come first are seldom beaten by the rest, which are then tried at one rate only */
export async function compareMix(given: Scenario, rivals: readonly string[], pool: MixPool): Promise<ComparedMix> {
  const { mix, bound, goodputRps, badLeast } = await longEnough(given, pool);
  let best = { policy: "none", goodputRps: 0 };
  for (const policy of rivals) {
    if (best.goodputRps > 0 && !(await isGood(pool, { ...mix, policy, rate: BETTER * best.goodputRps }))) continue;
    const found = await search(pool, { ...mix, policy }, bound);
    if (found.goodputRps > best.goodputRps) best = { policy, goodputRps: found.goodputRps };
  }
  return {
    seed: mix.seed,
    gpus: mix.gpus,
    models: mix.models.length,
    arrivals: mix.arrivals.process,
    goodputRps,
    rival: best.policy,
    rivalRps: best.goodputRps,
    boundRps: bound.clairvoyantRps,
    nonPreemptiveRps: await pool.nonPreemptive(mix, bound.clairvoyantRps),
    badLeast,
  };
}

interface Searched {
  readonly mix: Scenario;
  readonly bound: GoodputBound;
  readonly goodputRps: number;
  readonly badLeast: number;
}

/** The default's goodput over so long a run that 1 % of the least popular model is enough requests, or the longest. */
async function longEnough(given: Scenario, pool: MixPool): Promise<Searched> {
  const rarest = Math.min(...given.models.map(({ share }) => share));
  const durationMax = given.warmup + MIX_DURATION_MAX;
  for (let mix = given; ;) {
    const bound = await pool.bound(mix);
    const { goodputRps } = await search(pool, { ...mix, policy: "default" }, bound);
    const judged = mix.duration - mix.warmup;
    const badLeast = (BAD_RATE_MAX * rarest * goodputRps * judged) / 1e6;
    if (badLeast >= BAD_LEAST || mix.duration >= durationMax) return { mix, bound, goodputRps, badLeast };
    const longer = (LONGER * judged * BAD_LEAST) / Math.max(1, badLeast);
    mix = { ...mix, duration: micros(Math.round(Math.min(durationMax, mix.warmup + longer))) };
  }
}

const search = (pool: MixPool, scenario: Scenario, bound: GoodputBound): Promise<Goodput> =>
  goodput(scenario, (trial) => pool.run(trial), { arrivalsMin: micros(0), bound });

async function isGood(pool: MixPool, scenario: Scenario): Promise<boolean> {
  const { streams } = await pool.run(scenario);
  return streams.every(({ offered, bad }) => bad <= BAD_RATE_MAX * offered);
}
