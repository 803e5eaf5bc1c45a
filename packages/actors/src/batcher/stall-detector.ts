import type { Clock, Stop } from "@tutti/ports/clock";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, NEVER, after, earlier, later, millis, seconds } from "@tutti/units";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

/** A model stalls after this time past the first deadline of at least so many unanswered requests. */
const STALLED_AFTER = millis(1_500);
const REQUESTS_LEAST = 3;
/** A model counts as stalled only if a request for it arrived within this time. */
const ASKED_WITHIN = seconds(1);
const LOOK_EVERY = millis(250);
/**
 * A sub-cluster without an idle accelerator for so long was busy, or had none at all. It is as long as an idle
 * executor's heartbeats are apart: a shorter one would take the accelerators that others use in between for busy.
 */
const BUSY_FOR = seconds(1);
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
 * its turn: a restart would only lose its measurements. Nor do requests count that came before an accelerator was idle
 * again, or there at all: its first batch may not have ended yet.
 */
export class StallDetector {
  readonly #options: StallDetectorOptions;
  readonly #looking: Stop;
  /** When each model was last restarted, and whether it has answered since. */
  readonly #stalled = new Map<number, { readonly at: Instant; answers: boolean }>();
  /** When each sub-cluster was last seen to have an idle accelerator. */
  #idleAt: ReadonlyMap<string, Instant> = new Map();
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
    const { clock, log, threads, renew, tell } = this.#options;
    const now = clock.now();
    const availability = this.#lookForIdle(now);
    for (const entry of threads.values()) {
      const { subCluster, spec } = entry;
      const { number, name } = spec;
      const accelerators = subCluster === undefined ? "busy" : availability.get(subCluster);
      if (accelerators === "idle-again") forget(entry);
      const { unanswered, answerDueAt, askedAt } = entry;
      const isStalled =
        unanswered >= REQUESTS_LEAST && now > after(answerDueAt, STALLED_AFTER) && now < after(askedAt, ASKED_WITHIN);
      if (!isStalled || accelerators !== "idle") continue;
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

  /** Whether each sub-cluster has an idle accelerator: "idle-again" is the first after BUSY_FOR without one. */
  #lookForIdle(now: Instant): ReadonlyMap<string, "busy" | "idle" | "idle-again"> {
    const { threads, hasIdle } = this.#options;
    const found = new Map<string, "busy" | "idle" | "idle-again">();
    const idleAt = new Map<string, Instant>();
    for (const { subCluster } of threads.values()) {
      if (subCluster === undefined || found.has(subCluster)) continue;
      const last = this.#idleAt.get(subCluster);
      const isIdle = hasIdle(subCluster);
      const isAgain = last === undefined || now > after(last, BUSY_FOR);
      found.set(subCluster, !isIdle ? "busy" : isAgain ? "idle-again" : "idle");
      if (isIdle) idleAt.set(subCluster, now);
      else if (last !== undefined) idleAt.set(subCluster, last);
    }
    this.#idleAt = idleAt;
    return found;
  }
}

function forget(entry: ThreadEntry): void {
  entry.unanswered = 0;
  entry.answerDueAt = NEVER;
}
