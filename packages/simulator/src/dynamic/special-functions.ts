/** Cumulative distribution functions (CDFs) for the percentiles of workloads. */

/** CDF of the standard normal distribution: Φ(z) = Q(1/2, z²/2)/2 below 0. */
export function normalCdf(z: number): number {
  const tail = 0.5 * (1 - gammaCdf(0.5, (z * z) / 2));
  return z < 0 ? tail : 1 - tail;
}

/**
 * CDF of the Gamma distribution of scale 1: the regularised incomplete gamma function P(shape, x), by its series or
 * continued fraction.
 */
export function gammaCdf(shape: number, x: number): number {
  if (x <= 0) return 0;
  const front = Math.exp(shape * Math.log(x) - x - logGamma(shape));
  // Both converge in about √shape terms where they are used.
  const terms = 200 + 20 * Math.sqrt(shape);
  if (x < shape + 1) {
    let term = 1 / shape;
    let sum = term;
    for (let n = 1; n < terms && term > sum * 1e-16; n++) sum += term *= x / (shape + n);
    return Math.min(1, sum * front);
  }
  let b = x + 1 - shape;
  let c = 1e300;
  let d = 1 / b;
  let fraction = d;
  for (let n = 1; n < terms; n++) {
    const a = -n * (n - shape);
    b += 2;
    d = 1 / nonZero(a * d + b);
    c = nonZero(b + a / c);
    fraction *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return Math.max(0, 1 - front * fraction);
}

const nonZero = (value: number): number => (Math.abs(value) < 1e-300 ? 1e-300 : value);

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** ln Γ(x) for x > 0: Lanczos with g = 7, to about 1e-14. */
function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const y = x - 1;
  let sum = LANCZOS[0]!;
  for (let i = 1; i < LANCZOS.length; i++) sum += LANCZOS[i]! / (y + i);
  const t = y + 7.5;
  return 0.5 * Math.log(2 * Math.PI) + (y + 0.5) * Math.log(t) - t + Math.log(sum);
}
