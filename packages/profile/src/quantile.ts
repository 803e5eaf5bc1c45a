/** The least of ascending numbers that the share `q` (0 … 1) of them doesn't exceed; NaN: there are none. */
export const quantile = (ascending: ArrayLike<number>, q: number): number =>
  ascending[Math.max(0, Math.ceil(q * ascending.length) - 1)] ?? NaN;
