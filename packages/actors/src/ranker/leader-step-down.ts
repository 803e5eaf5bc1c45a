import type { Alarm, Clock } from "@tutti/ports/clock";
import { after, millis } from "@tutti/units";

export interface LeaderStepDownOptions {
  readonly clock: Clock;
  readonly leads: () => boolean;
  readonly hasSpare: () => boolean;
  /** Says that we yield: `yields` is true by now. */
  readonly onYield: () => void;
  /** Nothing more may be granted: `isOver` is true by now. */
  readonly onOver: () => void;
  /** Whether answers to grants are due. */
  readonly isOwed: () => boolean;
  /** Called once, when we may go. */
  readonly leave: (left: () => void) => void;
}

/** A spare takes a lease within a few ms; a leader that nobody follows leaves all the same. */
const YIELD_WITHIN = millis(100);
/**
 * Between the store's word that another has the lease and that one's own: until then executors obey us, and nobody else
 * grants.
 */
const FOLLOWED_WITHIN = millis(20);
/** What is granted when we leave is answered within this, as a rule; what is not is repaired as if we had died. */
const LEAVE_WITHIN = millis(2);

/**
 * The end of a process, and the start of the one that replaces it, take a processor for tens of milliseconds: just when
 * the successor has to hear of every accelerator and every candidate.
 */
const LINGERS = millis(100);

/**
 * How a leader leaves: it asks for a successor and grants until that says that it leads. Where nobody follows it grants
 * nothing more, and waits a moment for the answers that it is owed.
 */
export class LeaderStepDown {
  readonly #options: LeaderStepDownOptions;
  readonly #patience: Alarm;
  #state: "none" | "yields" | "followed" | "over" | "leaving" | "lingers" | "left" = "none";
  #isFollowed = false;
  /** Who asked us to leave. */
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
  /** We grant nothing more. */
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

  /** Another has the lease. */
  deposed(): void {
    if (this.#state !== "yields") return this.leaveIfUnowed();
    this.#isFollowed = true;
    this.#state = "followed";
    this.#patience.set(after(this.#options.clock.now(), FOLLOWED_WITHIN));
  }

  /** It was heard to lead, and so it was by whoever obeyed us. */
  successorLeads(): void {
    if (this.#state === "followed") this.#stop();
  }

  /** To be called whenever an answer has come. */
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
