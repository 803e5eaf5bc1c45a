/** At least so much must be good. */
export const GOOD_SHARE = 0.99;
const FIRST = 500;
/** The search ends when the rate that holds and the one that doesn't are this close. */
const CLOSE = 1.08;

interface Bracket {
  /** Held. */
  low: number;
  /** Did not hold. */
  high: number;
}

/**
 * The highest rate at which each contestant is good enough: doubled until it no longer is, then halved between. One trial of each in turn. A rate that fails once
 * is tried a second time, since a machine's bad second isn't the contestant's.
 */
export async function searchGoodput<T>(
  contestants: readonly T[],
  rateMax: number,
  trial: (contestant: T, perSecond: number) => Promise<number>,
): Promise<Map<T, number>> {
  const brackets = new Map<T, Bracket>(contestants.map((one) => [one, { low: 0, high: Infinity }]));
  for (;;) {
    let isDone = true;
    for (const [one, bracket] of brackets) {
      const rate = nextRate(bracket, rateMax);
      if (rate === undefined) continue;
      isDone = false;
      const holds = (await trial(one, rate)) >= GOOD_SHARE || (await trial(one, rate)) >= GOOD_SHARE;
      if (holds) bracket.low = rate;
      else bracket.high = rate;
    }
    if (isDone) return new Map([...brackets].map(([one, { low }]) => [one, low]));
  }
}

/** @returns undefined: it is known well enough */
export function nextRate({ low, high }: Readonly<Bracket>, rateMax: number): number | undefined {
  if (low >= rateMax) return undefined;
  if (high === Infinity) return low === 0 ? FIRST : Math.min(rateMax, 2 * low);
  if (low === 0) return high <= 20 ? undefined : Math.round(high / 2);
  return high / low <= CLOSE ? undefined : Math.round(Math.sqrt(low * high));
}
