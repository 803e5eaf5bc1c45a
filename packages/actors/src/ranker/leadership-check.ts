/**
 * R3 of the ranker: proof that whatever was sent to it some time ago has arrived. What it sends to itself and what is
 * answered come back in the order of everything else, so that a leader that was stopped and wakes sees a successor's
 * announcement before it grants (docs/architecture.md, 8).
 */
import { ALWAYS, type Instant, before, later, micros, millis } from "@tutti/units";

/** Older than this it proves nothing. */
const PROOF_AGE = millis(25);
/** A question to ourselves that does not come back is sent again. */
export const PROVE_AGAIN = millis(5);

export class LeadershipCheck {
  readonly #ask: (now: Instant) => void;
  /** When the newest that came back was sent. */
  #provenAt: Instant = ALWAYS;
  #askedAt: Instant = ALWAYS;

  /** @param ask - sends a question to ourselves; its answer is told to `cameBack` */
  constructor(ask: (now: Instant) => void) {
    this.#ask = ask;
  }

  /** At the beginning of a lead: the lease was taken just now. */
  begin(now: Instant): void {
    this.#provenAt = now;
  }
  cameBack(sentAt: Instant): void {
    this.#provenAt = later(this.#provenAt, sentAt);
  }
  holds(now: Instant): boolean {
    return this.#provenAt >= before(now, PROOF_AGE);
  }
  /** Asks where half of its time has gone, so that the answer is here when it is needed. */
  refresh(now: Instant): void {
    if (this.#provenAt < before(now, micros(PROOF_AGE / 2))) this.ask(now);
  }
  ask(now: Instant): void {
    if (this.#askedAt > before(now, PROVE_AGAIN)) return;
    this.#askedAt = now;
    this.#ask(now);
  }
}
