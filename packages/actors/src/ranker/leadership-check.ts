/**
 * RANKER-3 of the ranker: proof that all messages sent to it some time ago have arrived. Its messages to itself, and
 * the answers to its grants, come back in the order of everything else. So a leader that was stopped and wakes sees a
 * successor's announcement before it grants (docs/architecture.md, 8).
 *
 * An answer that came over a link proves only that the process was awake since its grant was sent, and has read what
 * the server sent it before: whether the server sends anything, a message to itself alone tells.
 *
 * A server that is silent brings nobody's announcement, and its silence alone ends no lead. It counts only while this
 * process is awake: what came for a process that was stopped is read before the silence is believed.
 */
import { ALWAYS, type Instant, before, later, micros, millis } from "@tutti/units";

/** Age above which a proof no longer counts, and longest time between two looks of a process that is awake. */
const PROOF_AGE = millis(25);
/** Delay before a question to ourselves that has not come back is sent again. */
export const PROVE_AGAIN = millis(5);
/**
 * Time awake without the answer to a question after which the server is silent: where all is near, and where something
 * far would be given up for it, which a server that is busy for a moment must not cost.
 */
const SILENT_AFTER = millis(20);
const SILENT_AFTER_FAR = millis(500);

export class LeadershipCheck {
  readonly #ask: (now: Instant) => void;
  /** When the newest message that came back was sent, and the newest that the server brought back. */
  #provenAt: Instant = ALWAYS;
  #servedAt: Instant = ALWAYS;
  #askedAt: Instant = ALWAYS;
  /** When the oldest question was sent whose answer, or that of a later one, ends the asking. */
  #openedAt: Instant = ALWAYS;
  /** Since when we are awake and have no answer; undefined: no question is open. */
  #unansweredSince: Instant | undefined;
  #lookedAt: Instant = ALWAYS;

  readonly #isAllNear: () => boolean;

  /**
   * @param ask - sends a question to ourselves; `cameBack` must be called with its answer
   * @param isAllNear - whether all accelerators and batchers can be reached without the server
   */
  constructor(ask: (now: Instant) => void, isAllNear: () => boolean) {
    this.#ask = ask;
    this.#isAllNear = isAllNear;
  }

  /** Begins a lead: the lease was taken just now. */
  begin(now: Instant): void {
    this.#provenAt = this.#servedAt = now;
    this.#unansweredSince = undefined;
  }
  /** A grant was answered, by whatever way. */
  cameBack(sentAt: Instant): void {
    this.#provenAt = later(this.#provenAt, sentAt);
  }
  /**
   * A question has come back. A server that answers is not silent: newer questions have their time from now on. An
   * answer that is late closes the question, too, but proves nothing: what is still on its way needs another.
   */
  answered(sentAt: Instant, now: Instant): void {
    this.cameBack(sentAt);
    this.#servedAt = later(this.#servedAt, sentAt);
    if (this.#unansweredSince !== undefined) this.#unansweredSince = sentAt < this.#openedAt ? now : undefined;
  }
  holds(now: Instant): boolean {
    return this.#provenAt >= before(now, PROOF_AGE) || this.isSilent(now);
  }
  /** Whether a question is open, so that `look` must be called every PROVE_AGAIN. */
  get isAsking(): boolean {
    return this.#unansweredSince !== undefined;
  }
  /** Whether the server answers nothing, and would have. */
  isSilent(now: Instant): boolean {
    return (
      this.#unansweredSince !== undefined &&
      this.#unansweredSince <= before(now, SILENT_AFTER) &&
      this.#lookedAt >= before(now, PROOF_AGE) &&
      (this.#unansweredSince <= before(now, SILENT_AFTER_FAR) || this.#isAllNear())
    );
  }
  /** Asks again. After a gap between two looks this process may have been stopped, and the silence starts anew. */
  look(now: Instant): void {
    if (this.#unansweredSince === undefined) return;
    if (this.#lookedAt < before(now, PROOF_AGE)) this.#unansweredSince = now;
    this.#lookedAt = now;
    if (!this.isSilent(now) || this.#askedAt < before(now, PROOF_AGE)) this.ask(now);
  }
  /** Asks again once half of the proof's time is over, so that the answer is here when it is needed. */
  refresh(now: Instant): void {
    if (this.#servedAt < before(now, micros(PROOF_AGE / 2))) this.ask(now);
  }
  ask(now: Instant): void {
    if (this.#askedAt > before(now, PROVE_AGAIN)) return;
    this.#askedAt = now;
    if (this.#unansweredSince === undefined) this.#openedAt = this.#unansweredSince = this.#lookedAt = now;
    this.#ask(now);
  }
}
