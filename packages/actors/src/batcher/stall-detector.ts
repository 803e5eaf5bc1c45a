import type { Clock, Stop } from "@tutti/ports/clock";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, NEVER, after, earlier, later, millis, seconds } from "@tutti/units";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

/** Requests must have been without an answer for so long past the first deadline of them, and be so many. */
const STALLED_AFTER = millis(1_500);
const REQUESTS_LEAST = 3;
/** Nobody needs an answer where none was asked for since. */
const ASKED_WITHIN = seconds(1);
const LOOK_EVERY = millis(250);
/** A new start needs the store, the ingresses' requests and a run. */
const RENEW_EVERY = seconds(2);
/** Whoever looks at figures looks every 15 s, and a new start may help at once. */
const TOLD_FOR = seconds(15);

export interface StallDetectorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly threads: ThreadTable;
  /** Whether an accelerator of that sub-cluster says that it serves and has nothing to do. */
  readonly hasIdle: (subCluster: string) => boolean;
  /** Starts the model's threads anew under a new term. */
  readonly renew: (modelNumber: number) => void;
  /** Sends a heartbeat. */
  readonly tell: () => void;
}

/**
 * Models that could be served and answer nothing: requests come, an accelerator is idle, and no batch of them ends.
 * Whatever is believed on the way to the accelerators, it is made anew: the threads start under a new term, and the
 * ranker, which is told by a heartbeat, forgets what it was offered. Where all accelerators are busy, the model waits
 * its turn: a new start would only cost it what it has learnt.
 */
export class StallDetector {
  readonly #options: StallDetectorOptions;
  readonly #looking: Stop;
  /** When each was started anew last, and whether it has answered since. */
  readonly #stalled = new Map<number, { readonly at: Instant; answers: boolean }>();
  #news: number[] = [];
  /** Times that a model was started anew. */
  renewals = 0;

  constructor(options: StallDetectorOptions) {
    this.#options = options;
    this.#looking = options.clock.every(LOOK_EVERY, () => this.#look());
  }

  close(): void {
    this.#looking.stop();
  }

  /** A request came that could be met, or came again. */
  arrived(entry: ThreadEntry, deadline: Instant, now: Instant): void {
    entry.unanswered++;
    entry.askedAt = now;
    entry.answerDueAt = earlier(entry.answerDueAt, later(deadline, now));
  }
  /** A batch of it has run. */
  answered(entry: ThreadEntry): void {
    this.withdrawn(entry);
    const stall = this.#stalled.size === 0 ? undefined : this.#stalled.get(entry.spec.number);
    if (stall === undefined || stall.answers) return;
    stall.answers = true;
    this.#options.log.info({ model: entry.spec.name }, "answers again");
  }
  /** Nobody waits for one of them any more: what is left may have been answered. */
  withdrawn(entry: ThreadEntry): void {
    entry.unanswered = 0;
    entry.answerDueAt = NEVER;
  }

  /** Whether the model answers nothing, or did so lately. */
  has(modelNumber: number): boolean {
    return this.#stalled.has(modelNumber);
  }
  /**
   * For the next heartbeat: the models that were started anew since the last. One that is lost is followed by the next
   * new start.
   */
  news(): { readonly stalled?: readonly number[] } {
    return this.#news.length === 0 ? {} : { stalled: this.#news.splice(0) };
  }

  #look(): void {
    const { clock, log, threads, hasIdle, renew, tell } = this.#options;
    const now = clock.now();
    for (const { spec, subCluster, unanswered, answerDueAt, askedAt } of threads.values()) {
      const { number, name } = spec;
      const isStalled =
        unanswered >= REQUESTS_LEAST && now > after(answerDueAt, STALLED_AFTER) && now < after(askedAt, ASKED_WITHIN);
      if (!isStalled || subCluster === undefined || !hasIdle(subCluster)) continue;
      const before = this.#stalled.get(number);
      if (before !== undefined && now < after(before.at, RENEW_EVERY)) continue;
      this.#stalled.set(number, { at: now, answers: false });
      this.#news.push(number);
      this.renewals++;
      log.error({ model: name, requests: unanswered }, "answers none of its requests, and is started anew");
      renew(number);
    }
    if (this.#news.length > 0) tell();
    for (const [number, { at }] of this.#stalled) if (now >= after(at, TOLD_FOR)) this.#stalled.delete(number);
  }
}
