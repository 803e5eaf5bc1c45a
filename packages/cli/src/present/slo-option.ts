import { usageError } from "@tutti/admin";
import { SLO_US_MAX } from "@tutti/protocol";
import { type Micros, parseDuration } from "@tutti/units";

/** The value of `--slo`. @throws {CommandError} usage */
export function sloOption(text: string): Micros {
  const slo = parseDuration(text);
  if (slo !== undefined && slo > 0 && slo <= SLO_US_MAX) return slo;
  throw usageError(`--slo ${text}: a length of time up to 10 min (SLO_US_MAX), such as 50ms`);
}
