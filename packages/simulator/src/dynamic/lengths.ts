/**
 * Distributions of the time that an application's requests take alone, to draw from. Times are in µs. Distributions are
 * plain data, which other threads receive unchanged.
 *
 * Draws are whole µs and at least 1.
 */
import { type Prng, assert } from "@tutti/units";
import { nextGamma } from "../scenario/gaps.ts";
import { gammaCdf, normalCdf } from "./special-functions.ts";

export type Lengths =
  | { readonly kind: "constant"; readonly at: number }
  /** A mixture of normal distributions of one σ; weights sum to 1. */
  | {
      readonly kind: "modes";
      readonly centres: readonly number[];
      readonly sigma: number;
      readonly weights: readonly number[];
    }
  /** μ and σ of the logarithm. */
  | { readonly kind: "lognormal"; readonly mu: number; readonly sigma: number }
  | { readonly kind: "gamma"; readonly shape: number; readonly scale: number }
  /** Measured lengths, all equally likely; ascending. */
  | { readonly kind: "replay"; readonly lengths: readonly number[] };

/** 99th percentile of the standard normal distribution. */
const NORMAL_P99 = 2.3263478740408408;

/**
 * A lognormal distribution by mean and 99th percentile; undefined where there is none (P99 ≤ mean, or beyond 14.9 times
 * the mean).
 */
export function lognormalLengths(mean: number, p99: number): Lengths | undefined {
  // p99/mean = e^{z·σ − σ²/2}: of the two solutions the narrower one.
  const root = NORMAL_P99 ** 2 - 2 * Math.log(p99 / mean);
  if (!(mean > 0) || p99 <= mean || root < 0) return undefined;
  const sigma = NORMAL_P99 - Math.sqrt(root);
  return { kind: "lognormal", mu: Math.log(mean) - sigma ** 2 / 2, sigma };
}

/** A Gamma distribution by mean and 99th percentile; undefined where there is none of a shape from 0.05 to 1e5. */
export function gammaLengths(mean: number, p99: number): Lengths | undefined {
  const at = (shape: number) => gammaCdf(shape, (shape * p99) / mean);
  // Beyond a shape of 1 the P99 falls towards the mean; below it the distribution is so skewed that it may fall again.
  let [low, high] = [0.05, 1e5];
  if (!(mean > 0) || p99 <= mean || at(low) > 0.99 || at(high) < 0.99) return undefined;
  for (let i = 0; i < 80; i++) {
    const middle = Math.sqrt(low * high);
    if (at(middle) < 0.99) low = middle;
    else high = middle;
  }
  return { kind: "gamma", shape: low, scale: mean / low };
}

/** @param lengths - in any order; at least one */
export function replayedLengths(lengths: readonly number[]): Lengths {
  assert(
    lengths.length > 0 && lengths.every((length) => length > 0),
    "lengths to replay are above 0, and there are some",
  );
  return { kind: "replay", lengths: lengths.toSorted((a, b) => a - b) };
}

/** Centres that are evenly spaced from the first to the last; a single mode lies in the middle. */
export function modeCentres(modes: number, from: number, to: number): number[] {
  if (modes === 1) return [(from + to) / 2];
  return Array.from({ length: modes }, (_, i) => from + (i * (to - from)) / (modes - 1));
}

export function drawLength(lengths: Lengths, prng: Prng): number {
  return Math.max(1, Math.round(drawn(lengths, prng)));
}

function drawn(lengths: Lengths, prng: Prng): number {
  switch (lengths.kind) {
    case "constant":
      return lengths.at;
    case "modes": {
      const mode = drawIndex(lengths.weights, prng);
      return lengths.centres[mode]! + lengths.sigma * prng.nextNormal();
    }
    case "lognormal":
      return Math.exp(lengths.mu + lengths.sigma * prng.nextNormal());
    case "gamma":
      return lengths.scale * nextGamma(prng, lengths.shape);
    case "replay":
      return lengths.lengths[prng.nextInt(lengths.lengths.length)]!;
  }
}

/** @param weights - they sum to 1, so that rounding alone leaves the last */
export function drawIndex(weights: readonly number[], prng: Prng): number {
  if (weights.length === 1) return 0;
  let draw = prng.nextFloat();
  for (let i = 0; i < weights.length - 1; i++) {
    if (draw < weights[i]!) return i;
    draw -= weights[i]!;
  }
  return weights.length - 1;
}

export function meanLength(lengths: Lengths): number {
  switch (lengths.kind) {
    case "constant":
      return lengths.at;
    case "modes":
      return lengths.centres.reduce((sum, centre, i) => sum + centre * lengths.weights[i]!, 0);
    case "lognormal":
      return Math.exp(lengths.mu + lengths.sigma ** 2 / 2);
    case "gamma":
      return lengths.shape * lengths.scale;
    case "replay":
      return lengths.lengths.reduce((sum, length) => sum + length, 0) / lengths.lengths.length;
  }
}

/** Share of the requests that take at most `x` µs. */
export function lengthCdf(lengths: Lengths, x: number): number {
  switch (lengths.kind) {
    case "constant":
      return x >= lengths.at ? 1 : 0;
    case "modes":
      return lengths.centres.reduce(
        (sum, centre, i) => sum + lengths.weights[i]! * normalAt(x, centre, lengths.sigma),
        0,
      );
    case "lognormal":
      return x > 0 ? normalAt(Math.log(x), lengths.mu, lengths.sigma) : 0;
    case "gamma":
      return gammaCdf(lengths.shape, x / lengths.scale);
    case "replay":
      return lengths.lengths.filter((length) => length <= x).length / lengths.lengths.length;
  }
}

const normalAt = (x: number, mean: number, sigma: number): number =>
  sigma > 0 ? normalCdf((x - mean) / sigma) : x >= mean ? 1 : 0;

/** Steps of the integral below: its error is of the order of a step, here a few hundredths of a percent. */
const STEPS = 8192;

/** E[longest of k] for k = 1 … `most`, of requests of a mixture: ∫ 1 − F(x)^k dx, to the first 1e-7 of the tail. */
export function meanLongest(
  parts: readonly { readonly share: number; readonly lengths: Lengths }[],
  most: number,
): number[] {
  const end = mixtureQuantile(parts, 1 - 1e-7);
  const means = new Array<number>(most).fill(0);
  for (let i = 0; i < STEPS; i++) {
    const x = ((i + 0.5) * end) / STEPS;
    const below = parts.reduce((sum, part) => sum + part.share * lengthCdf(part.lengths, x), 0);
    let power = 1;
    for (let k = 0; k < most; k++) means[k]! += ((1 - (power *= below)) * end) / STEPS;
  }
  return means;
}

/** The length that `share` of a mixture's requests don't exceed, in whole µs. Shares sum to 1. */
export function mixtureQuantile(
  parts: readonly { readonly share: number; readonly lengths: Lengths }[],
  share: number,
): number {
  const at = (x: number) => parts.reduce((sum, part) => sum + part.share * lengthCdf(part.lengths, x), 0);
  let high = 1;
  while (at(high) < share - 1e-12 && high < 2 ** 50) high *= 2;
  let low = 0;
  while (high - low > 0.5) {
    const middle = (low + high) / 2;
    if (at(middle) < share - 1e-12) low = middle;
    else high = middle;
  }
  return Math.max(1, Math.round(high));
}
