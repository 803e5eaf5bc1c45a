/**
 * How the adaptive policy departs from deferral as printed: it starts earlier and aims at smaller batches, the more so
 * the burstier arrivals are.
 *
 * The window from frontrun to latest is only l(b+1) − l(b) wide. Where every accelerator is busy, a candidate that
 * joins the ranker's waiting set no sooner than that mostly misses it; one that joins earlier costs nothing, since it
 * starts only when an accelerator is free. And a target of b*, the batch of even arrivals, gives up heads for batches
 * that don't come where arrivals are uneven. Bursts ask for more of both: queues are long or empty, and what counts is
 * that no accelerator idles while one is long. Where arrivals are even, what an early start gives up is known too: the
 * requests of the time by which it is early. So it is early by no more than a part of the time in which the batch's
 * requests come. Where bursts are rare and large, as of Gamma gaps of shape 0.05, nothing is worth waiting for: what
 * comes comes at once. Tuned on Symphony's workloads with Poisson and Gamma arrivals; the package's README says how.
 */
export interface Adaptation {
  /** Of the SLO: how much earlier than frontrun a batch may start. */
  readonly early: number;
  /** Of b*: the target batch. */
  readonly target: number;
  /**
   * Of the time in which as many requests come as the batch has: a batch starts no earlier than by that; Infinity:
   * however early.
   */
  readonly span: number;
}

const EVEN: Adaptation = { early: 0.12, target: 0.8, span: 0.35 };
const BURSTY: Adaptation = { early: 0.4, target: 0.45, span: Infinity };
const RARE_BURSTS: Adaptation = { early: 1, target: 0.6, span: Infinity };
/**
 * Poisson arrivals have a dispersion of 1, a sample of 100 slots one of 1 ± 0.15, and Gamma gaps of shape 0.5, which
 * are to count as nearly even, 2 ± 0.3.
 */
const DISPERSION_EVEN = 2;
const DISPERSION_BURSTY = 4;
/**
 * Of samples of Gamma gaps of shape 0.1 nine in ten are below the first, of shape 0.05 nine in ten above it, and half
 * above the second.
 */
const DISPERSION_RARE = { from: 11, to: 15 };
const LEVELS = 16;
/**
 * Under overload that lasts requests are never lacking, and small batches only waste time; b* itself reckons with more
 * accelerators than there are.
 */
const OVERLOADED_TARGET = 0.9;

/** β·λ below which waiting can't pay. */
const SAVING_LEAST = 0.2;

/**
 * Whether waiting can pay. A batch that waits for one more request waits 1/λ, and saves β; where that is five times as
 * long an idle accelerator is better used at once, and a lone request answered. (To wait until a batch has βλ requests,
 * the βλ rule, is another thing, and does not help: near its limit a cluster has no accelerators that are idle.)
 *
 * @param beta - of the profile, or what else the next request would save, µs
 * @param perMicro - λ
 */
export const canWaitingPay = (beta: number, perMicro: number): boolean => beta * perMicro >= SAVING_LEAST;

/** Between the settings in steps, so that nothing allocates and decisions don't change with every request. */
const levels: readonly Adaptation[] = Array.from({ length: LEVELS + 1 }, (_, level) => ({
  ...between(EVEN, BURSTY, level / LEVELS),
  // The rate of bursts says nothing about what comes next.
  span: EVEN.span / (1 - level / LEVELS),
}));
const rareBursts = Array.from({ length: LEVELS + 1 }, (_, level) => between(BURSTY, RARE_BURSTS, level / LEVELS));
const overloaded = levels.map(({ early, span }): Adaptation => ({ early, target: OVERLOADED_TARGET, span }));

function between(a: Adaptation, b: Adaptation, share: number): Adaptation {
  return {
    early: a.early + share * (b.early - a.early),
    target: a.target + share * (b.target - a.target),
    span: b.span,
  };
}

/** What deferral as printed does. */
export const NO_ADAPTATION: Adaptation = { early: 0, target: 1, span: Infinity };

/**
 * @param dispersion - index of dispersion of the arrivals (ArrivalRate); NaN while it isn't known @param isOverloaded -
 *   for seconds already (SustainedLoss)
 */
export function adaptationTo(dispersion: number, isOverloaded = false): Adaptation {
  const rare = (dispersion - DISPERSION_RARE.from) / (DISPERSION_RARE.to - DISPERSION_RARE.from);
  if (rare > 0 && !isOverloaded) return rareBursts[Math.round(Math.min(1, rare) * LEVELS)]!;
  const share = (dispersion - DISPERSION_EVEN) / (DISPERSION_BURSTY - DISPERSION_EVEN);
  return (isOverloaded ? overloaded : levels)[share > 0 ? Math.round(Math.min(1, share) * LEVELS) : 0]!;
}
