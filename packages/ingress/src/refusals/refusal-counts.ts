import type { ErrorCode } from "@tutti/protocol";

/** Refusals by their cause. */
type RefusalCounts = Map<ErrorCode, number>;

export const countRefusal = (refused: RefusalCounts, code: ErrorCode): unknown =>
  refused.set(code, (refused.get(code) ?? 0) + 1);

/** Their figures: `refused.<code>` of each cause, and `refused` of all. */
export function refusals(refused: ReadonlyMap<ErrorCode, number>): Record<string, number> {
  const figures: Record<string, number> = {};
  let sum = 0;
  for (const [code, times] of refused) {
    figures[`refused.${code}`] = times;
    sum += times;
  }
  figures["refused"] = sum;
  return figures;
}
