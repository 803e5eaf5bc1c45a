/**
 * A request's number, told where every part of the system passes it on unchanged: in the last digits of its SLO, which
 * arrivals carry.
 */
export const APP = "chaos";

/** Of a machine that has its processors to itself. */
export const SLO_MS = 400;
/**
 * 250 s at 200 requests a second: no request lives until its code comes again. In microseconds, it is 50 ms more for
 * some than for others.
 */
const CODES = 50_000;

export const sloUsOf = (token: number, sloMs: number): number => sloMs * 1_000 + (token % CODES);

/** The latest of the requests up to `last` that has this SLO; undefined for one that is not ours. */
export function tokenOf(sloUs: number, sloMs: number, last: number): number | undefined {
  const code = sloUs - sloMs * 1_000;
  if (!(code >= 0 && code < CODES) || last < 0) return undefined;
  const token = last - ((((last - code) % CODES) + CODES) % CODES);
  return token >= 0 ? token : undefined;
}
