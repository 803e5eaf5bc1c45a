/**
 * The number of sub-clusters that are used, of those that have a leader (docs/algorithms.md, E7): as few as rankers can
 * decide for, since dividing only loses capacity.
 *
 *   COUNT-1. Rankers that are busier than BUSY_HIGH on average need one more; they are fewer where the rest would stay
 *            below BUSY_LOW.
 *   COUNT-2. All that are asked for are used where they are expected to carry DIVIDED_LEAST of what one carries, or
 *            where as many are demanded. A division stays down to DIVIDED_KEPT.
 *   COUNT-3. It changes when several windows in a row agree. What memory needs, or is demanded, counts at once.
 */
import { ALWAYS, type Instant, type Micros, after, seconds } from "@tutti/units";
import type { PlacedModel } from "./problem.ts";

/** Share of its time for which a ranker may be busy: beyond, grants wait for one another. */
export const BUSY_HIGH = 0.7;
const BUSY_LOW = 0.5;
/** Share of what an undivided cluster carries that a division must carry. */
export const DIVIDED_LEAST = 0.9;
const DIVIDED_KEPT = 0.85;
const AGREEING = 3;
/** The planner's window of rates. */
const WINDOW: Micros = seconds(5);

/** Rates that all accelerators are expected to carry of the present mix. */
export interface DivisionEstimate {
  readonly dividedRps: number;
  readonly undividedRps: number;
}

export interface CountSeen {
  /** Sub-clusters with a leader. */
  readonly asked: number;
  /** Sum of the busy shares of the rankers that are used; undefined: no ranker has reported it. */
  readonly busy: number | undefined;
  /** Sub-clusters that the models' memory needs. */
  readonly byMemory: number;
  /** Expected of as many sub-clusters as are asked for; undefined: nothing is requested, or it is unknown. */
  readonly estimate: DivisionEstimate | undefined;
}

/** `rankers`, `memory`: as many as those need. `cheap`: dividing costs little. `costly`: not more than are needed. */
export type CountReason = "demanded" | "rankers" | "memory" | "cheap" | "costly" | "unknown";

export interface SubClusterCount {
  readonly count: number;
  readonly needed: number;
  readonly because: CountReason;
}

/**
 * @param current - used now
 * @param least - demanded, whatever it costs
 */
export function countOfSubClusters(seen: CountSeen, current: number, least: number): SubClusterCount {
  const { asked, busy, byMemory, estimate } = seen;
  const byRankers = neededByRankers(busy, current);
  const needed = Math.max(byRankers, byMemory);
  const most = (count: number): number => Math.max(1, Math.min(asked, count));
  if (least >= asked) return { count: most(least), needed, because: "demanded" };
  if (needed >= asked) return { count: most(needed), needed, because: byRankers >= byMemory ? "rankers" : "memory" };
  const fewest = most(Math.max(needed, least));
  if (estimate === undefined) return { count: Math.max(fewest, most(current)), needed, because: "unknown" };
  const bound = current >= asked ? DIVIDED_KEPT : DIVIDED_LEAST;
  if (estimate.dividedRps >= bound * estimate.undividedRps) return { count: asked, needed, because: "cheap" };
  return { count: fewest, needed, because: "costly" };
}

/** COUNT-1. */
function neededByRankers(busy: number | undefined, current: number): number {
  if (busy === undefined) return 1;
  const fewest = Math.ceil(busy / BUSY_HIGH - 1e-9);
  return Math.max(1, fewest, Math.min(current, Math.ceil(busy / BUSY_LOW - 1e-9)));
}

/** Sub-clusters that models need if each executor holds those of its own (E1), by first fit of the largest first. */
export function neededByMemory(
  models: readonly Pick<PlacedModel, "staticMemory" | "dynamicMemory">[],
  capacities: readonly number[],
): number {
  const descending = capacities.toSorted((a, b) => b - a);
  const bins: { static: number; dynamic: number }[] = [];
  for (const { staticMemory, dynamicMemory } of models.toSorted((a, b) => b.staticMemory - a.staticMemory)) {
    if (staticMemory + dynamicMemory > (descending[0] ?? 0)) continue; // more sub-clusters don't make room for it
    const room = bins.find(
      (bin, i) => bin.static + staticMemory + Math.max(bin.dynamic, dynamicMemory) <= (descending[i] ?? 0),
    );
    if (room === undefined) bins.push({ static: staticMemory, dynamic: dynamicMemory });
    else Object.assign(room, { static: room.static + staticMemory, dynamic: Math.max(room.dynamic, dynamicMemory) });
  }
  return Math.max(1, bins.length);
}

/** Follows the measurements (COUNT-3). */
export class SubClusterCounter {
  readonly #least: number;
  #count: number;
  #agreeing = 0;
  #wanted: number;
  #heardAt: Instant = ALWAYS;

  /** @param current - used by the placement that stands */
  constructor(current: number, least: number) {
    this.#least = least;
    this.#count = this.#wanted = Math.max(1, current, least);
  }

  /** Whether the next window has passed. */
  isDue(at: Instant): boolean {
    return at >= after(this.#heardAt, WINDOW);
  }

  /** Takes the measurements of a window. @returns what they say, with the number that is used now */
  hear(seen: CountSeen, at: Instant): SubClusterCount {
    this.#heardAt = at;
    const now = countOfSubClusters(seen, Math.min(this.#count, seen.asked), this.#least);
    this.#agreeing = now.count === this.#count ? 0 : now.count === this.#wanted ? this.#agreeing + 1 : 1;
    this.#wanted = now.count;
    if (this.#agreeing >= AGREEING) this.#count = now.count;
    return { ...now, count: this.usable(seen) };
  }

  /** The number that is used: never more than have a leader, and at once what memory needs (COUNT-3). */
  usable({ asked, byMemory }: Pick<CountSeen, "asked" | "byMemory">): number {
    return Math.max(1, Math.min(asked, Math.max(this.#count, this.#least, byMemory)));
  }
}
