/** Checks how long a lease stays with a killed owner, where nothing else is wrong: docs/architecture.md, 4. */
import { leaseKeys } from "@tutti/protocol";
import type { ActorKey, Instant } from "@tutti/units";
import type { Report } from "./violation.ts";

/**
 * Bound for rankers: pings every 10 ms here, two hops and a write. In a live system pings come every 2 ms (see
 * takeover.test.ts of test/cluster for exact times).
 */
const RANKER_US_MAX = 40_000;
/** Bound for batchers: probes every 20 ms, and a write. Issue: within 100 ms. */
const BATCHER_US_MAX = 100_000;

export class TakeoverChecker {
  readonly #report: Report;
  readonly #now: () => Instant;
  readonly #holders = new Map<string, ActorKey>();
  /** Leases of dead owners, and by when another actor must own them. */
  readonly #orphans = new Map<string, { readonly holder: ActorKey; readonly dueAt: number }>();
  /** Whether the plan has no faults but deaths: only then are times judged. */
  readonly #isJudged: boolean;

  constructor(report: Report, now: () => Instant, isJudged: boolean) {
    this.#report = report;
    this.#now = now;
    this.#isJudged = isJudged;
  }

  leaseWritten(key: string, holder: ActorKey | undefined): void {
    if (holder === undefined) this.#holders.delete(key);
    else this.#holders.set(key, holder);
    this.#orphans.delete(key);
  }

  killed(holder: ActorKey): void {
    if (!this.#isJudged) return;
    for (const [key, held] of this.#holders) {
      if (held !== holder) continue;
      const within = key.startsWith(RANKERS) ? RANKER_US_MAX : BATCHER_US_MAX;
      this.#orphans.set(key, { holder, dueAt: this.#now() + within });
    }
  }

  check(): void {
    for (const [key, { holder, dueAt }] of this.#orphans) {
      if (this.#now() <= dueAt) continue;
      this.#orphans.delete(key);
      this.#report("T1", `nobody took ${key} over from ${holder.toString(36)}, who is dead, in time`);
    }
  }
}

const RANKERS = leaseKeys.ranker("");
