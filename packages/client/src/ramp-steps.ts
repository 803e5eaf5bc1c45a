const UP = [1, 2, 5, 10, 25, 50, 75] as const;

/**
 * Shares from `from` (excluded) to `to`, small ones first, since the first requests tell most. Downwards the order is
 * reversed.
 */
export function rampSteps(from: number, to: number): number[] {
  const between = UP.filter((percent) => percent > Math.min(from, to) && percent < Math.max(from, to));
  return [...(to >= from ? between : between.toReversed()), to];
}
