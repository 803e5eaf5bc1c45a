import { type Instant, after, seconds } from "@tutti/units";

/**
 * So long after its last grant a leader counts as idle. Its heartbeats, which tell of grants, are a second apart at
 * most.
 */
const BUSY_FOR = seconds(2);

/**
 * Whether the leader has work, as far as a spare can tell: that decides how closely it is watched. One that has not
 * been heard of yet may have some.
 */
export class LeaderActivity {
  /** What it has granted in all, as its last heartbeat said. */
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
