/**
 * Decides whether a series grows: a straight line through the means of equal stretches after a warm-up. Neighbouring
 * samples are correlated and those of stretches hardly are, so the error of the slope is that of independent ones.
 */
export interface Sample {
  readonly atS: number;
  readonly value: number;
}

export interface Trend {
  readonly mean: number;
  /** Growth per second. */
  readonly slope: number;
  /** Standard error of the slope. */
  readonly error: number;
  readonly seconds: number;
}

export const STRETCHES = 20;
/** Number of standard errors from zero at which growth is no coincidence. */
const ERRORS = 3;

/** @returns undefined: there are too few samples */
export function trendOf(samples: readonly Sample[], fromS: number): Trend | undefined {
  const late = samples.filter(({ atS }) => atS >= fromS);
  if (late.length < 2 * STRETCHES) return undefined;
  const [first, last] = [late[0]!.atS, late.at(-1)!.atS];
  const stretches: Sample[][] = Array.from({ length: STRETCHES }, () => []);
  for (const sample of late) {
    const index = Math.floor((STRETCHES * (sample.atS - first)) / Math.max(1e-9, last - first));
    stretches[Math.min(STRETCHES - 1, index)]!.push(sample);
  }
  const points = stretches
    .filter(({ length }) => length > 0)
    .map((part) => ({ atS: mean(part.map(({ atS }) => atS)), value: mean(part.map(({ value }) => value)) }));
  if (points.length < 3) return undefined;
  const [x, y] = [mean(points.map(({ atS }) => atS)), mean(points.map(({ value }) => value))];
  const spread = sum(points.map(({ atS }) => (atS - x) ** 2));
  const slope = sum(points.map(({ atS, value }) => (atS - x) * (value - y))) / spread;
  const rest = sum(points.map(({ atS, value }) => (value - y - slope * (atS - x)) ** 2));
  return { mean: y, slope, error: Math.sqrt(rest / (points.length - 2) / spread), seconds: last - first };
}

/**
 * Whether a series grows without an end. What fills up to a limit, such as a heap, has stopped growing in the second
 * half; a leak grows there as fast as before.
 *
 * @param allowed - total growth that is allowed: growth can be significant and still not matter
 */
export function grows(samples: readonly Sample[], fromS: number, allowed: number): boolean {
  const whole = trendOf(samples, fromS);
  if (whole === undefined || !isGrowth(whole, allowed)) return false;
  const half = trendOf(samples, samples.at(-1)!.atS - whole.seconds / 2);
  // A half knows the slope less well than the whole: it acquits only where the slope is surely less.
  return half === undefined || half.slope + ERRORS * half.error >= whole.slope || isGrowth(half, allowed / 2);
}

const isGrowth = ({ slope, error, seconds }: Trend, allowed: number): boolean =>
  slope > ERRORS * error && slope * seconds > allowed;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;
