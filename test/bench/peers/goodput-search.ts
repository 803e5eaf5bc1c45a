/** The search ends when the rate that holds and the one that doesn't are this close. */
const CLOSE = 1.1;
const CLOSE_PER_SECOND = 10;
/** A lower rate isn't looked for. */
const LEAST = 20;
/** Most trials of a rate that are repeated because the machine stood still meanwhile. */
const DISTURBED_MAX = 2;
/**
 * Factors by which the rate changes until both bounds are known. The first step is small, since the first rate is an
 * estimate already.
 */
const STEPS = [1.2, 1.4, 2];

export interface Bracket {
  /** The highest rate that held. */
  low: number;
  /** The lowest rate that did not hold. */
  high: number;
  readonly first: number;
  steps: number;
  /** Failed trials of the current rate. */
  failures: number;
  disturbances: number;
}

/** Whether a rate held; disturbed: it did not, but the load generator itself stood still meanwhile. */
export type Outcome = "held" | "failed" | "disturbed";

/** Bounds on a contestant's goodput: the highest rate that held, and the lowest above it that did not. */
export interface Found {
  readonly goodput: number;
  readonly failedAt: number;
}

/**
 * Searches the highest rate at which each contestant is good enough. It moves away from the first rate until one held
 * and one did not, then bisects. Contestants have one trial each in turn. A rate that fails once is tried again in the
 * next round, since a bad second of the machine isn't the contestant's.
 *
 * @param firsts - the first rate of each
 * @param isOver - ends the search after the round, however far it has come
 */
export async function searchGoodput<T>(
  firsts: ReadonlyMap<T, number>,
  rateMax: number,
  trial: (contestant: T, perSecond: number) => Promise<Outcome>,
  isOver: () => boolean = () => false,
): Promise<Map<T, Found>> {
  const brackets = new Map(
    [...firsts].map(([one, first]): [T, Bracket] => [
      one,
      { low: 0, high: Infinity, first, steps: 0, failures: 0, disturbances: 0 },
    ]),
  );
  for (;;) {
    let isDone = true;
    for (const [one, bracket] of brackets) {
      const rate = nextRate(bracket, rateMax);
      if (rate === undefined) continue;
      isDone = false;
      take(bracket, rate, await trial(one, rate));
    }
    if (isDone || isOver())
      return new Map([...brackets].map(([one, { low, high }]) => [one, { goodput: low, failedAt: high }]));
  }
}

function take(bracket: Bracket, rate: number, outcome: Outcome): void {
  if (outcome === "disturbed" && bracket.disturbances++ < DISTURBED_MAX) return;
  if (outcome !== "held" && ++bracket.failures < 2) return;
  if (outcome === "held") bracket.low = rate;
  else bracket.high = rate;
  bracket.failures = 0;
  bracket.disturbances = 0;
  bracket.steps++;
}

/** @returns undefined: the goodput is known well enough */
export function nextRate(
  { low, high, first, steps }: Readonly<Omit<Bracket, "failures" | "disturbances">>,
  rateMax: number,
): number | undefined {
  const factor = STEPS[Math.min(steps, STEPS.length) - 1] ?? 1;
  if (low >= rateMax) return undefined;
  if (low === 0 && high === Infinity) return Math.round(Math.min(rateMax, Math.max(LEAST, first)));
  if (high === Infinity) return Math.round(Math.min(rateMax, factor * low));
  if (low === 0) return high <= LEAST ? undefined : Math.round(Math.max(LEAST, high / factor));
  return high / low <= CLOSE || high - low <= CLOSE_PER_SECOND ? undefined : Math.round(Math.sqrt(low * high));
}
