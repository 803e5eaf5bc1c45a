import { SHARE_CLASSES_MAX, type SharesTold } from "@tutti/protocol";

type Told = { readonly [K in keyof SharesTold]?: unknown };
const isNumberWithin = (value: unknown, least: number, most: number): value is number =>
  typeof value === "number" && value >= least && value <= most;
function isShare(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { app, priority, keep } = value as Record<string, unknown>;
  return (
    Number.isSafeInteger(app) &&
    isNumberWithin(app, 0, 2 ** 32 - 1) &&
    Number.isSafeInteger(priority) &&
    isNumberWithin(priority, 0, 255) &&
    isNumberWithin(keep, 0, 1)
  );
}
/** Checks the shape of a batcher's shares before an ingress refuses by them (T8). */
export const areShares = ({ thread, term, classes }: Told): boolean =>
  Number.isSafeInteger(thread) &&
  isNumberWithin(thread, 0, 2 ** 32 - 1) &&
  Number.isSafeInteger(term) &&
  Array.isArray(classes) &&
  classes.length <= SHARE_CLASSES_MAX &&
  classes.every(isShare);
