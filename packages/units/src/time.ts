import { assert } from "./assert.ts";

declare const unit: unique symbol;

/** A length of time: whole microseconds, never negative. Infinity stands for "for ever". */
export type Micros = number & { readonly [unit]: "Micros" };

/**
 * A moment: microseconds since the Unix epoch (exact in a double until the year 2255).
 * `NEVER` (+Infinity) and `ALWAYS` (-Infinity) are moments too.
 */
export type Instant = number & { readonly [unit]: "Instant" };

export const NEVER = Infinity as Instant;
export const ALWAYS = -Infinity as Instant;

export function micros(count: number): Micros {
  assert(Number.isSafeInteger(count) && count >= 0, `${count} is no length of time in whole microseconds`);
  return count as Micros;
}

/** Rounds up: a latency that is rounded down makes a deadline that cannot be met look possible. */
export const millis = (count: number): Micros => micros(Math.ceil(count * 1000 - 1e-6));
export const seconds = (count: number): Micros => micros(Math.ceil(count * 1e6 - 1e-6));

export function instant(count: number): Instant {
  assert(Number.isSafeInteger(count), `${count} is no moment in whole microseconds`);
  return count as Instant;
}

export const after = (start: Instant, delay: Micros): Instant => (start + delay) as Instant;
export const before = (end: Instant, delay: Micros): Instant => (end - delay) as Instant;
/** From `start` until `end`; zero if `end` lies before `start`. */
export const between = (start: Instant, end: Instant): Micros => (end > start ? end - start : 0) as Micros;
export const later = (a: Instant, b: Instant): Instant => (a > b ? a : b);
export const earlier = (a: Instant, b: Instant): Instant => (a < b ? a : b);

const DURATION = /^(\d+(?:\.\d+)?)\s*(us|µs|ms|s|m|h)?$/;
const FACTOR: ReadonlyMap<string, number> = new Map(
  Object.entries({ us: 1, µs: 1, ms: 1000, s: 1e6, m: 6e7, h: 3.6e9 }),
);

/** Reads `25ms`, `1.5s`, `800us` or a bare number of milliseconds; undefined for anything else. */
export function parseDuration(text: string): Micros | undefined {
  const match = DURATION.exec(text.trim());
  if (match === null) return undefined;
  const count = Math.round(Number(match[1]) * (FACTOR.get(match[2] ?? "ms") ?? NaN));
  return Number.isSafeInteger(count) ? (count as Micros) : undefined;
}

/** `0.8 ms`, `25 ms`, `1.5 s`: for people. */
export function formatDuration(duration: Micros): string {
  if (duration === Infinity) return "for ever";
  if (duration < 1e6) return `${Number((duration / 1000).toPrecision(3))} ms`;
  return `${Number((duration / 1e6).toPrecision(3))} s`;
}
