/**
 * The adaptive policy's changes to deferral as printed. It starts earlier and aims at smaller batches, the more so the
 * burstier arrivals are.
 *
 * The window from frontrun to latest is only l(b+1) − l(b) wide. When every accelerator is busy, a candidate that joins
 * the ranker's waiting set only then mostly misses it. Joining earlier costs nothing, since the candidate starts only
 * when an accelerator is free. And the target b*, the batch of even arrivals, drops heads for batches that don't form
 * where arrivals are uneven. Bursts need more of both changes: queues are long or empty, and no accelerator should idle
 * while one is long. Where arrivals are even, the cost of an early start is known: the requests that would arrive in
 * the time by which it is early. So that time is at most a fraction of the time in which the batch's requests arrive.
 * Tuned on Symphony's workloads with Poisson and Gamma arrivals; docs/design/batching-policies.md says how.
 */
export interface Adaptation {
  /** Time by which a batch may start earlier than frontrun, as a fraction of the SLO. */
  readonly early: number;
  /** Target batch, as a fraction of b*. */
  readonly target: number;
  /** Bound of an early start, as a fraction of the time in which a batch's requests arrive; Infinity: no bound. */
  readonly span: number;
  /**
   * Least time that a batch waits after its first request's arrival while accelerators are idle, as a fraction of β:
   * the rest of a burst follows at once, and alone each of its first requests would occupy an accelerator.
   */
  readonly gather: number;
  /**
   * Longest wait of a batch where the model gets one accelerator only, as a fraction of the SLO. Models of a long SLO
   * then run seldom and those of a short one find the accelerator free; bursts come together without a wait.
   */
  readonly wait: number;
}

const EVEN: Adaptation = { early: 0.12, target: 0.8, span: 0.35, gather: 0, wait: 0.2 };
const BURSTY: Adaptation = { early: 0.4, target: 0.45, span: Infinity, gather: 0.2, wait: 0 };
/**
 * Dispersion up to which arrivals count as even. Poisson arrivals have a dispersion of 1, and a sample of 100 slots has
 * 1 ± 0.15. Gamma gaps of shape 0.5, which should count as nearly even, have 2 ± 0.3.
 */
const DISPERSION_EVEN = 2;
const DISPERSION_BURSTY = 4;
const LEVELS = 16;
/**
 * Target under lasting overload where requests came out of deadline order; elsewhere chooseBatch needs none. Requests
 * are then never lacking, and small batches only waste time; b* itself assumes more accelerators than there are.
 */
const OVERLOADED_TARGET = 0.9;

/** Value of β·λ below which waiting can't pay. */
const SAVING_LEAST = 0.2;

/**
 * True if waiting can pay. A batch that waits for one more request waits 1/λ, and saves β. If 1/λ is five times as
 * long, an idle accelerator is better used at once, and a lone request answered. (The βλ rule, which waits until a
 * batch has βλ requests, is different and does not help: near its limit a cluster has no idle accelerators.)
 *
 * @param beta - of the profile, or another saving of the next request, µs
 * @param perMicro - λ
 */
export const canWaitingPay = (beta: number, perMicro: number): boolean => beta * perMicro >= SAVING_LEAST;

/** Settings in steps, so that nothing allocates and decisions don't change with every request. */
const levels: readonly Adaptation[] = Array.from({ length: LEVELS + 1 }, (_, level) => ({
  ...between(EVEN, BURSTY, level / LEVELS),
  // The rate of bursts says nothing about the next arrivals.
  span: EVEN.span / (1 - level / LEVELS),
}));
const overloaded = levels.map((level): Adaptation => ({ ...level, target: OVERLOADED_TARGET }));

function between(a: Adaptation, b: Adaptation, share: number): Adaptation {
  return {
    early: a.early + share * (b.early - a.early),
    target: a.target + share * (b.target - a.target),
    span: b.span,
    gather: a.gather + share * (b.gather - a.gather),
    wait: a.wait + share * (b.wait - a.wait),
  };
}

/** Deferral as printed. */
export const NO_ADAPTATION: Adaptation = { early: 0, target: 1, span: Infinity, gather: 0, wait: 0 };

/**
 * @param dispersion - index of dispersion of the arrivals (ArrivalRate); NaN while unknown
 * @param isOverloaded - overloaded for seconds already (FairShares.isLasting)
 */
export function adaptationTo(dispersion: number, isOverloaded = false): Adaptation {
  const share = (dispersion - DISPERSION_EVEN) / (DISPERSION_BURSTY - DISPERSION_EVEN);
  return (isOverloaded ? overloaded : levels)[share > 0 ? Math.round(Math.min(1, share) * LEVELS) : 0]!;
}
