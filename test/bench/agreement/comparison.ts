/** Whether two results agree, and in which quantities they don't. */

/** Quantities that live and the simulator both have. */
export interface Seen {
  /** Answers in time, per second. */
  readonly goodRps: number;
  readonly batchMean: number;
  /** From arrival at the ingress to the answer there; with several models the mean of theirs. */
  readonly p99Ms: number;
  /** Share of all requests that the scheduler refused: 0 … 1. */
  readonly refusedShare: number;
}

export interface Compared {
  readonly quantity: keyof Seen;
  readonly live: number;
  readonly simulated: number;
  /** Relative to the simulated value; of refusals the difference of the shares. */
  readonly apart: number;
  readonly agrees: boolean;
}

/** Largest difference of what agrees, relative to the simulated value. */
const APART_MAX = 0.05;
/** The same for refusals, as a share of all requests: few of them say nothing relative to one another. */
const REFUSED_APART_MAX = 0.005;

/** @param most - the largest relative difference of what agrees */
export function compare(live: Seen, simulated: Seen, most = APART_MAX): Compared[] {
  return (["goodRps", "batchMean", "p99Ms", "refusedShare"] as const).map((quantity) => {
    const [one, other] = [live[quantity], simulated[quantity]];
    const isShare = quantity === "refusedShare";
    const apart = isShare ? one - other : one / other - 1;
    const agrees = isShare ? Math.abs(apart) <= Math.max(REFUSED_APART_MAX, most * other) : Math.abs(apart) <= most;
    return { quantity, live: one, simulated: other, apart, agrees };
  });
}
