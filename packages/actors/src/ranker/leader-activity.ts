import { type Instant, after, seconds } from "@tutti/units";

/**
 * Time after its last grant for which a leader counts as busy. Its heartbeats, which count grants, are a second apart
 * at most.
 */
const BUSY_FOR = seconds(2);

/**
 * Whether the leader has work, as far as a spare can tell. That decides how closely it is watched. A leader that has
 * not been heard yet counts as busy.
 */
export class LeaderActivity {
  /** Total of its grants, as its last heartbeat said. */
  #grants = -1;
  #until: Instant;

  constructor(now: Instant) {
    this.#until = after(now, BUSY_FOR);
  }

  heard(grants: number, now: Instant): void {
    if (grants === this.#grants) return;
    this.#grants = grants;
    this.#until = after(now, BUSY_FOR);
  }

  isThere(now: Instant): boolean {
    return now < this.#until;
  }
}
