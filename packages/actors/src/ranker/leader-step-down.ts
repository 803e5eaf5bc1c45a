import type { Alarm, Clock } from "@tutti/ports/clock";
import { after, millis } from "@tutti/units";

export interface LeaderStepDownOptions {
  readonly clock: Clock;
  readonly leads: () => boolean;
  readonly hasSpare: () => boolean;
  /** Announces that we yield: `yields` is true by now. */
  readonly onYield: () => void;
  /** Nothing more may be granted: `isOver` is true by now. */
  readonly onOver: () => void;
  /** Whether answers to grants are outstanding. */
  readonly isOwed: () => boolean;
  /** Called once, when we may leave. */
  readonly leave: (left: () => void) => void;
}

/**
 * How long a leader waits for a successor. A spare takes a lease within a few ms; a leader without a successor leaves
 * all the same.
 */
const YIELD_WITHIN = millis(100);
/**
 * Time between the store's report that another ranker has the lease and that ranker's announcement. Until then
 * executors accept our grants, and no other ranker grants.
 */
const FOLLOWED_WITHIN = millis(20);
/** Time in which grants are usually answered when we leave. Unanswered ones are repaired as if we had died. */
const LEAVE_WITHIN = millis(2);

/**
 * How long the process stays after the lead. The end of a process, and the start of the one that replaces it, take a
 * processor for tens of milliseconds, just when the successor has to hear of every accelerator and every candidate.
 */
const LINGERS = millis(100);

/**
 * Hands the lead over in order: the leader asks for a successor, and grants until that one leads. Without a successor
 * it grants nothing more, and waits a moment for the outstanding answers.
 */
export class LeaderStepDown {
  readonly #options: LeaderStepDownOptions;
  readonly #patience: Alarm;
  #state: "none" | "yields" | "followed" | "over" | "leaving" | "lingers" | "left" = "none";
  #isFollowed = false;
  /** Callbacks of those that asked us to leave. */
  readonly #askers: (() => void)[] = [];

  constructor(options: LeaderStepDownOptions) {
    this.#options = options;
    this.#patience = options.clock.alarm(() => {
      if (this.#state === "yields" || this.#state === "followed") this.#stop();
      else if (this.#state === "lingers") this.#tell();
      else this.#end();
    });
  }

  get yields(): boolean {
    return this.#state === "yields";
  }
  /** Whether we grant nothing more. */
  get isOver(): boolean {
    return this.#state !== "none" && this.#state !== "yields" && this.#state !== "followed";
  }

  /** @param left - called when our process may end, also if we had already been asked, or were gone */
  begin(left: () => void): void {
    if (this.#state === "left") return left();
    this.#askers.push(left);
    if (this.#state !== "none") return;
    const { clock, leads, hasSpare, onYield } = this.#options;
    if (!leads() || !hasSpare()) return this.#stop();
    this.#state = "yields";
    this.#patience.set(after(clock.now(), YIELD_WITHIN));
    onYield();
  }

  /** Another ranker has the lease. */
  deposed(): void {
    if (this.#state !== "yields") return this.leaveIfUnowed();
    this.#isFollowed = true;
    this.#state = "followed";
    this.#patience.set(after(this.#options.clock.now(), FOLLOWED_WITHIN));
  }

  /** The successor was heard to lead, so the executors have heard it too. */
  successorLeads(): void {
    if (this.#state === "followed") this.#stop();
  }

  /** Called whenever an answer has come. */
  leaveIfUnowed(): void {
    if (this.#state === "over" && !this.#options.isOwed()) this.#end();
  }

  #stop(): void {
    const { clock, onOver } = this.#options;
    this.#state = "over";
    this.#patience.set(after(clock.now(), LEAVE_WITHIN));
    onOver();
    this.leaveIfUnowed();
  }

  #end(): void {
    if (this.#state !== "over") return;
    this.#state = "leaving";
    this.#patience.clear();
    this.#options.leave(() => {
      if (!this.#isFollowed) return this.#tell();
      this.#state = "lingers";
      this.#patience.set(after(this.#options.clock.now(), LINGERS));
    });
  }

  #tell(): void {
    this.#state = "left";
    for (const left of this.#askers.splice(0)) left();
  }
}
