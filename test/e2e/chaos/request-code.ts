/**
 * A request's number, encoded in the last digits of its SLO. Arrivals carry the SLO, and every part of the system
 * passes it on unchanged.
 */
export const APP = "chaos";

/** SLO on a machine that runs nothing else. */
export const SLO_MS = 400;
/**
 * Number of codes: 250 s at 200 requests a second, so that no request lives until its code comes again. In
 * microseconds, SLOs differ by 50 ms at most.
 */
const CODES = 50_000;

export const sloUsOf = (token: number, sloMs: number): number => sloMs * 1_000 + (token % CODES);

/** The latest request up to `last` that has this SLO; undefined for a request that is not ours. */
export function tokenOf(sloUs: number, sloMs: number, last: number): number | undefined {
  const code = sloUs - sloMs * 1_000;
  if (!(code >= 0 && code < CODES) || last < 0) return undefined;
  const token = last - ((((last - code) % CODES) + CODES) % CODES);
  return token >= 0 ? token : undefined;
}
