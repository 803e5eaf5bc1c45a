/** A request's number, told where every part of the system passes it on unchanged: in the last digits of its SLO, which arrivals carry. */
export const APP = "chaos";

const SLO_US = 400_000;
/** 250 s at 200 requests a second: no request lives until its code comes again. */
const CODES = 50_000;

export const sloUsOf = (token: number): number => SLO_US + (token % CODES);

/** The latest of the requests up to `last` that has this SLO; undefined for one that is not ours. */
export function tokenOf(sloUs: number, last: number): number | undefined {
  const code = sloUs - SLO_US;
  if (!(code >= 0 && code < CODES) || last < 0) return undefined;
  const token = last - ((((last - code) % CODES) + CODES) % CODES);
  return token >= 0 ? token : undefined;
}
