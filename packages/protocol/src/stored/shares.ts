import { isName } from "../limits.ts";
import { type Static, schema } from "../schema.ts";

/** Most applications that one model may name in its shares. */
export const SHARES_MAX = 256;
/** Largest weight, and inverse of the smallest; anything beyond is a typing error. */
export const SHARE_WEIGHT_MAX = 1_000_000;
/** Stands for every application that is not named. */
export const OTHER_APPS = "*";

const isApp = (text: string): boolean => text === OTHER_APPS || isName(text);
const isWeight = schema.between(1 / SHARE_WEIGHT_MAX, SHARE_WEIGHT_MAX);
/** Weights by application. */
export const isShares = schema.map(isWeight, { name: schema.also(schema.text(), isApp), most: SHARES_MAX });
export type Shares = Static<typeof isShares>;

/** @returns what is wrong with a map of weights by application; undefined if nothing is */
export function sharesProblem(value: unknown): string | undefined {
  if (isShares(value)) return undefined;
  if (!schema.map(schema.unchecked())(value)) return "weights by application are expected, { camera: 3, '*': 1 }";
  const apps = Object.keys(value);
  if (apps.length > SHARES_MAX) return `at most ${SHARES_MAX} applications can be named`;
  const app = apps.find((name) => !isApp(name) || !isWeight(value[name]))!;
  return isApp(app)
    ? `the weight of '${app}' is a number above zero and up to ${SHARE_WEIGHT_MAX}`
    : `'${app.slice(0, 80)}' is no name of an application`;
}
