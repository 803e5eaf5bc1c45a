/** FP16 as numbers, converted by hand: Node 22 has no Float16Array yet. */
const scratch = new DataView(new ArrayBuffer(4));

/** Half way between the greatest half, 65,504, and the step after it: from here on numbers round to infinity. */
export const HALF_OVERFLOW = 65_520;

/** Half-precision bits to a number; exact. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A number to half-precision bits, rounded to the nearest, ties to even; beyond the range it becomes an infinity. */
export function toHalf(value: number): number {
  if (value !== value) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= HALF_OVERFLOW) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | roundEven(size * 2 ** 24); // subnormal; 1024 carries into the least normal
  scratch.setFloat32(0, size);
  let exponent = (scratch.getUint32(0) >>> 23) - 127;
  if (2 ** exponent > size) exponent--; // rounding to float32 went up to the next power of two
  const fraction = roundEven((size / 2 ** exponent - 1) * 1024);
  return sign | (((exponent + 15) << 10) + fraction); // a fraction of 1024 carries into the exponent
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
