/** Random mixes of unlike models: workloads that nobody chose, and so nobody tuned a scheduler to. */
import type { Interference } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { type Micros, Prng, micros, seconds } from "@tutti/units";
import { BAD_RATE_MAX, staggeredRate } from "../bounds/bounds.ts";
import { wholeProfile } from "../parts/part-profile.ts";
import type { Arrivals, Scenario, ScenarioModel } from "./scenario.ts";

/** Requests of the least popular model that 1 % should be: with fewer, a judgement rests on luck. */
export const BAD_LEAST = 50;
/** Share of the staggered bound that is expected to be served. */
const EXPECTED_SHARE = 0.6;
const DURATION_MIN = seconds(20);
export const MIX_DURATION_MAX = seconds(600);
const WARMUP = seconds(1);
const BATCH_MAX = 64;

/**
 * Draws a mix: 4 to 32 accelerators, 2 to 10 models with l(b) = α·b + β (α from 0.05 to 20 ms, β from 0.2 to 40 ms),
 * SLOs from 2 to 10 times l(1), popularity by Zipf with an exponent up to 1, and Poisson arrivals or gaps of
 * Gamma(0.1). Ranges are drawn evenly by logarithm. The run is so long that 1 % of the least popular model is about 50
 * requests, if the cluster serves 0.6 of its staggered bound, within 20 to 600 s.
 *
 * @param seed - of the mix and of its arrivals
 */
export function randomMix(seed: number): Scenario {
  const prng = new Prng(seed);
  const between = (low: number, high: number): number => low * (high / low) ** prng.nextFloat();
  const gpus = Math.round(between(4, 32));
  const count = 2 + prng.nextInt(9);
  const exponent = prng.nextFloat();
  const arrivals: Arrivals = prng.nextInt(2) === 0 ? { process: "poisson" } : { process: "gamma", shape: 0.1 };
  const weights = Array.from({ length: count }, (_, i) => (i + 1) ** -exponent);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const models = weights.map((weight, i): ScenarioModel => {
    const alpha = micros(Math.round(between(50, 20_000)));
    const beta = micros(Math.round(between(200, 40_000)));
    const slo = micros(Math.round(between(2, 10) * (alpha + beta)));
    const batchSizeMax = Math.min(BATCH_MAX, Math.max(1, Math.floor((slo - beta) / alpha)));
    const profile = LatencyTable.affine({ alpha, beta, batchSizeMax });
    return { name: `m${i + 1}`, profile, slo, classes: [], share: weight / total };
  });
  const mix: Scenario = {
    ...{ seed, duration: DURATION_MIN, warmup: WARMUP, gpus, policy: "default", gather: "target", rate: 1 },
    ...{ arrivals, network: NO_DELAYS, models, phases: [] },
  };
  return { ...mix, duration: durationOf(mix) };
}

/**
 * The mix of the same seed of models that leave part of an accelerator idle: one request fills 0.03 to 1 of it, and in
 * half of the mixes neighbours slow one another (docs/algorithms.md, D6). SLOs are as many times l(1) as before.
 */
export function randomMixOfParts(seed: number): Scenario {
  const mix = randomMix(seed);
  const prng = new Prng(seed ^ 0x70617274);
  const models = mix.models.map((model): ScenarioModel => {
    const { alpha, beta, batchSizeMax } = model.profile;
    const fills = FILLS_MIN ** prng.nextFloat();
    const uses = { cacheUse: USE_MAX * prng.nextFloat(), bandwidthUse: USE_MAX * prng.nextFloat() };
    const parts = { alpha, beta, fills, ...uses };
    const profile = wholeProfile(parts, batchSizeMax);
    const slo = micros(Math.round((model.slo / model.profile.latency(1)) * profile.latency(1)));
    return { ...model, parts, profile, slo };
  });
  const found = { ...mix, models, ...(prng.nextInt(2) === 0 && { interference: CROWDED }) };
  return { ...found, duration: durationOf(found) };
}
const FILLS_MIN = 0.03;
const USE_MAX = 0.6;
const CROWDED: Interference = [0.2, 0.5, 0.3, 0.2, 0.9];

const NO_DELAYS = { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 };

function durationOf(mix: Scenario): Micros {
  const rarest = Math.min(...mix.models.map(({ share }) => share));
  const needed = BAD_LEAST / BAD_RATE_MAX / (rarest * EXPECTED_SHARE * staggeredRate(mix));
  return micros(Math.round(WARMUP + Math.min(MIX_DURATION_MAX, Math.max(DURATION_MIN, 1e6 * needed))));
}
