/**
 * RANKER-3 of the ranker: proof that all messages sent to it some time ago have arrived. Its messages to itself, and
 * the answers to its grants, come back in the order of everything else. So a leader that was stopped and wakes sees a
 * successor's announcement before it grants (docs/architecture.md, 8).
 */
import { ALWAYS, type Instant, before, later, micros, millis } from "@tutti/units";

/** Age above which a proof no longer counts. */
const PROOF_AGE = millis(25);
/** Delay before a question to ourselves that has not come back is sent again. */
export const PROVE_AGAIN = millis(5);

export class LeadershipCheck {
  readonly #ask: (now: Instant) => void;
  /** When the newest message that came back was sent. */
  #provenAt: Instant = ALWAYS;
  #askedAt: Instant = ALWAYS;

  /** @param ask - sends a question to ourselves; `cameBack` must be called with its answer */
  constructor(ask: (now: Instant) => void) {
    this.#ask = ask;
  }

  /** Begins a lead: the lease was taken just now. */
  begin(now: Instant): void {
    this.#provenAt = now;
  }
  cameBack(sentAt: Instant): void {
    this.#provenAt = later(this.#provenAt, sentAt);
  }
  holds(now: Instant): boolean {
    return this.#provenAt >= before(now, PROOF_AGE);
  }
  /** Asks again once half of the proof's time is over, so that the answer is here when it is needed. */
  refresh(now: Instant): void {
    if (this.#provenAt < before(now, micros(PROOF_AGE / 2))) this.ask(now);
  }
  ask(now: Instant): void {
    if (this.#askedAt > before(now, PROVE_AGAIN)) return;
    this.#askedAt = now;
    this.#ask(now);
  }
}
