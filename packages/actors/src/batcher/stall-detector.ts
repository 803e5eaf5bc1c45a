import type { Clock, Stop } from "@tutti/ports/clock";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, NEVER, after, earlier, later, millis, seconds } from "@tutti/units";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

const REQUESTS_LEAST = 3;
/** A model counts as stalled only if a request for it arrived within this time. */
const ASKED_WITHIN = seconds(1);
const LOOK_EVERY = millis(250);
/**
 * A model stalls after so many looks past its first deadline that find an accelerator idle: 1.5 s. Heartbeats of idle
 * executors are 1 s apart, so one that has just begun the first batch is taken for idle by up to four.
 */
const IDLE_LOOKS = 6;
/** Interval between restarts. A restart needs the store, the ingresses' requests and a run. */
const RENEW_EVERY = seconds(2);
/** How long a stall stays in the figures. Readers look every 15 s, and a restart may help at once. */
const TOLD_FOR = seconds(15);

export interface StallDetectorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly threads: ThreadTable;
  /** Whether an accelerator of the sub-cluster says that it serves and is idle. */
  readonly hasIdle: (subCluster: string) => boolean;
  /** Restarts the model's threads under a new term. */
  readonly renew: (modelNumber: number) => void;
  /** Sends a heartbeat. */
  readonly tell: () => void;
}

/**
 * Detects models that could be served but answer nothing: requests come, an accelerator is idle, and no batch ends.
 * Some belief on the way to the accelerators must be wrong, so all of them are renewed: the threads restart under a new
 * term, and a heartbeat makes the ranker forget the model's offers. If all accelerators are busy, the model waits for
 * its turn: a restart would only lose its measurements. So only time counts in which one is idle. It need not be
 * without a break: others may use the accelerators in between.
 */
export class StallDetector {
  readonly #options: StallDetectorOptions;
  readonly #looking: Stop;
  /** When each model was last restarted, and whether it has answered since. */
  readonly #stalled = new Map<number, { readonly at: Instant; answers: boolean }>();
  #news: number[] = [];
  /** Number of restarts. */
  renewals = 0;

  constructor(options: StallDetectorOptions) {
    this.#options = options;
    this.#looking = options.clock.every(LOOK_EVERY, () => this.#look());
  }

  close(): void {
    this.#looking.stop();
  }

  /** A request came or was repeated whose deadline could be met. */
  arrived(entry: ThreadEntry, deadline: Instant, now: Instant): void {
    entry.unanswered++;
    entry.askedAt = now;
    entry.answerDueAt = earlier(entry.answerDueAt, later(deadline, now));
  }
  /** A batch of the thread has run. */
  answered(entry: ThreadEntry): void {
    forget(entry);
    const stall = this.#stalled.size === 0 ? undefined : this.#stalled.get(entry.spec.number);
    if (stall === undefined || stall.answers) return;
    stall.answers = true;
    this.#options.log.info({ model: entry.spec.name }, "answers again");
  }
  /** A requester withdrew: the requests that are left may have been answered already. */
  withdrawn(entry: ThreadEntry): void {
    forget(entry);
  }

  /** Whether the model stalls, or stalled recently. */
  has(modelNumber: number): boolean {
    return this.#stalled.has(modelNumber);
  }
  /**
   * Models restarted since the last heartbeat, for the next one. If that heartbeat is lost, the next restart sends the
   * model again.
   */
  news(): { readonly stalled?: readonly number[] } {
    return this.#news.length === 0 ? {} : { stalled: this.#news.splice(0) };
  }

  #look(): void {
    const { clock, log, threads, hasIdle, renew, tell } = this.#options;
    const now = clock.now();
    for (const entry of threads.values()) {
      const { subCluster, unanswered, answerDueAt, askedAt } = entry;
      const { number, name } = entry.spec;
      if (unanswered < REQUESTS_LEAST || now <= answerDueAt || subCluster === undefined) continue;
      if (!hasIdle(subCluster)) continue;
      entry.idleLooks++;
      if (entry.idleLooks <= IDLE_LOOKS || now >= after(askedAt, ASKED_WITHIN)) continue;
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

function forget(entry: ThreadEntry): void {
  entry.unanswered = 0;
  entry.answerDueAt = NEVER;
  entry.idleLooks = 0;
}
