import { isName } from "./limits.ts";

/** Most applications that one model may name in its shares. */
export const SHARES_MAX = 256;
/** Largest weight, and inverse of the smallest; anything beyond is a typing error. */
export const SHARE_WEIGHT_MAX = 1_000_000;
/** Stands for every application that is not named. */
export const OTHER_APPS = "*";

/** @returns what is wrong with a map of weights by application; undefined if nothing is */
export function sharesProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "weights by application are expected, { camera: 3, '*': 1 }";
  const entries = Object.entries(value);
  if (entries.length > SHARES_MAX) return `at most ${SHARES_MAX} applications can be named`;
  for (const [app, weight] of entries) {
    if (app !== OTHER_APPS && !isName(app)) return `'${app.slice(0, 80)}' is no name of an application`;
    if (typeof weight !== "number" || !(weight >= 1 / SHARE_WEIGHT_MAX && weight <= SHARE_WEIGHT_MAX))
      return `the weight of '${app}' is a number above zero and up to ${SHARE_WEIGHT_MAX}`;
  }
  return undefined;
}
