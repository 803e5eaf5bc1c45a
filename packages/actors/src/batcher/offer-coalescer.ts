import type { Clock, Stop } from "@tutti/ports/clock";
import { IndexedHeap } from "@tutti/collections";
import type { Candidate, Grant } from "@tutti/scheduling";
import { ALWAYS, BUCKETS_MAX, type Instant, type Micros, type ThreadId, millis } from "@tutti/units";
import { MODELS_MAX } from "@tutti/protocol";

/** How long an offer leaves before the ranker's timer for it fires, in addition to the candidate's delay. */
const LEAD: Micros = millis(2);
/**
 * Lead of an offer that replaces one which the ranker has. If it comes late, the ranker grants for the smaller batch,
 * and the grant serves the larger.
 */
const REPLACE_LEAD: Micros = millis(1);
/**
 * Interval of a coarse timer, which is enough for offers that leave two milliseconds early. A precise timer costs a
 * wake-up and a spin.
 */
const TICK: Micros = millis(1);

interface Gated {
  readonly index: number;
  readonly candidate: Candidate;
  /** When the candidate last changed. */
  offeredAt: Instant;
  /**
   * State of the ranker's knowledge of this thread that no answer has voided. A notice is an offer sent long before it
   * is due.
   */
  sent: "nothing" | "notice" | "offer";
  /** When the ranker's timer for the sent candidate fires. */
  sentDueAt: Instant;
}

/**
 * Holds offers back until shortly before they are due, and sends only the newest. The ranker grants nothing before a
 * candidate's model timer, and while requests arrive each of them changes the candidate. The first offer leaves at
 * once: it tells the ranker that an accelerator will be needed, and until when it may give it idle time. Later ones
 * wait until shortly before their plan is due (docs/algorithms.md, A5: only the newest candidate need reach the rank
 * logic). An offer that the ranker already has is replaced at once if the ranker would act on it too early, otherwise
 * shortly before the new plan is due: growing batches are due earlier with each request.
 */
export class OfferCoalescer {
  readonly #clock: Clock;
  readonly #send: (candidate: Candidate) => void;
  readonly #gated = new Map<ThreadId, Gated>();
  readonly #byIndex: (Gated | undefined)[] = [];
  readonly #due = new IndexedHeap(MODELS_MAX * BUCKETS_MAX);
  #ticking: Stop | undefined;

  constructor(clock: Clock, send: (candidate: Candidate) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Takes the thread's newest candidate, which is borrowed. */
  offer(candidate: Candidate): void {
    const gated = this.#of(candidate);
    Object.assign(gated.candidate, candidate);
    const now = this.#clock.now();
    gated.offeredAt = now;
    if (candidate.batchSize === 0) {
      this.#due.remove(gated.index);
      if (gated.sent !== "nothing") this.#send(candidate);
      gated.sent = "nothing";
      return;
    }
    const dueAt = dueAtRanker(candidate);
    const lead = gated.sent === "offer" ? REPLACE_LEAD : candidate.delay + LEAD;
    const isSoon = dueAt - lead <= now;
    const isNews = gated.sent === "nothing" || gated.sentDueAt < dueAt;
    if (isSoon) this.#release(gated, "offer");
    else if (isNews) this.#release(gated, gated.sent === "offer" ? "offer" : "notice");
    else {
      this.#due.set(gated.index, dueAt - lead);
      this.#ticking ??= this.#clock.every(TICK, () => this.#onTick());
    }
  }

  /**
   * When a grant should have been sent: once the newest candidate was known and due, and the accelerator nearly free.
   * If it was sent earlier, the time of that.
   */
  dueAt({ thread, freeAt, sentAt }: Grant): Instant {
    const gated = this.#gated.get(thread);
    if (gated === undefined || gated.candidate.batchSize === 0) return sentAt;
    const due = Math.max(dueAtRanker(gated.candidate), gated.offeredAt, freeAt - gated.candidate.delay);
    return Math.min(due, sentAt) as Instant;
  }

  /** A grant was answered or the ranker is new: it has no valid offer of this thread. */
  voided(thread: ThreadId): void {
    const gated = this.#gated.get(thread);
    if (gated !== undefined) gated.sent = "nothing";
  }
  /**
   * Voids the offer at the ranker that has it, which must not grant on it. Otherwise it would grant accelerators that
   * stay unused until the offer is stale.
   */
  withdraw(thread: ThreadId): void {
    const gated = this.#gated.get(thread);
    if (gated === undefined) return;
    if (gated.sent !== "nothing")
      this.#send({ ...gated.candidate, offerSeq: gated.candidate.offerSeq + 1, batchSize: 0 });
    gated.sent = "nothing";
    this.#due.remove(gated.index);
  }
  forget(thread: ThreadId): void {
    const gated = this.#gated.get(thread);
    if (gated === undefined) return;
    this.withdraw(thread);
    this.#gated.delete(thread);
    this.#byIndex[gated.index] = undefined;
  }
  /** Candidates that the ranker should have, for heartbeats. */
  sent(): Candidate[] {
    return [...this.#gated.values()].filter(({ sent }) => sent !== "nothing").map(({ candidate }) => candidate);
  }
  close(): void {
    this.#ticking?.stop();
    this.#ticking = undefined;
  }

  #of(candidate: Candidate): Gated {
    let gated = this.#gated.get(candidate.thread);
    if (gated === undefined) {
      const free = this.#byIndex.indexOf(undefined);
      const index = free < 0 ? this.#byIndex.length : free;
      gated = { index, candidate: { ...candidate }, offeredAt: ALWAYS, sent: "nothing", sentDueAt: ALWAYS };
      this.#gated.set(candidate.thread, gated);
      this.#byIndex[gated.index] = gated;
    }
    return gated;
  }
  #release(gated: Gated, as: "notice" | "offer"): void {
    this.#due.remove(gated.index);
    gated.sent = as;
    gated.sentDueAt = dueAtRanker(gated.candidate);
    this.#send(gated.candidate);
  }
  #onTick(): void {
    const now = this.#clock.now();
    while (this.#due.topPriority <= now) this.#release(this.#byIndex[this.#due.topKey]!, "offer");
    if (this.#due.size === 0) this.close();
  }
}

/** When the ranker's model timer for a candidate fires (docs/algorithms.md, A4). */
const dueAtRanker = (candidate: Candidate): Instant => (candidate.execAt - candidate.delay) as Instant;
