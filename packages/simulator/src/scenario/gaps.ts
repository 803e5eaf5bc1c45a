/** The times between requests, with mean 1: a stream scales them by its rate. */
import type { Prng } from "@tutti/units";
import type { Arrivals } from "./scenario.ts";

export interface Gaps {
  /** From any moment to the next request: the process has run for ever, so no burst begins at time 0. */
  first(): number;
  next(): number;
}

export function gapsOf(arrivals: Exclude<Arrivals, { process: "trace" }>, prng: Prng): Gaps {
  switch (arrivals.process) {
    case "poisson":
    case "modulated": // its rate changes, not its gaps: pace.ts
      return { first: () => prng.nextExponential(1), next: () => prng.nextExponential(1) };
    case "uniform":
      return { first: () => prng.nextFloat(), next: () => 1 };
    case "gamma": {
      const { shape } = arrivals;
      // A moment falls into a gap in proportion to its length, which makes Gamma(shape) Gamma(shape + 1), and anywhere
      // in it.
      return {
        first: () => (nextGamma(prng, shape + 1) / shape) * prng.nextFloat(),
        next: () => nextGamma(prng, shape) / shape,
      };
    }
  }
}

/** Gamma(shape) of scale 1, so mean and variance are `shape`: Marsaglia and Tsang, ACM TOMS 26 (2000) 363–372. */
export function nextGamma(prng: Prng, shape: number): number {
  if (shape < 1) return nextGamma(prng, shape + 1) * prng.nextFloat() ** (1 / shape);
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = prng.nextNormal();
    const v = (1 + c * x) ** 3;
    if (v <= 0) continue;
    const u = 1 - prng.nextFloat();
    if (Math.log(u) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}
