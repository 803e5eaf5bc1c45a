/** The last refusals of all ingresses, for an operator who opens the page after a failure. */
import { type StatsReported, readRefusals } from "@tutti/protocol";
import type { FeedRefusal } from "../index.ts";

export const REFUSALS_KEPT_MAX = 200;

export class RecentRefusals {
  readonly #kept: FeedRefusal[] = [];
  #onNew: (refusals: readonly FeedRefusal[]) => void = () => undefined;

  /** @param onNew - called with new refusals */
  constructor(onNew?: (refusals: readonly FeedRefusal[]) => void) {
    if (onNew !== undefined) this.#onNew = onNew;
  }

  /** Oldest first. */
  get all(): readonly FeedRefusal[] {
    return this.#kept;
  }

  /** @returns false when the report's refusals are malformed (T8) */
  hear({ refusals: value }: Pick<StatsReported, "refusals">): boolean {
    if (value === undefined) return true;
    const refusalReports = readRefusals(value);
    if (refusalReports === undefined) return false;
    const fresh = refusalReports.map(({ at, app = "", id = "", traceId: trace = "", ...rest }): FeedRefusal => {
      return { ...rest, at: at / 1_000, app, id, trace };
    });
    this.#kept.push(...fresh);
    this.#kept.splice(0, Math.max(0, this.#kept.length - REFUSALS_KEPT_MAX));
    this.#onNew(fresh);
    return true;
  }
}
