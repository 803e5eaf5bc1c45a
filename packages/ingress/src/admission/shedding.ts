import type { Alarm, Clock } from "@tutti/ports/clock";
import { RequestsShed, SharesTold, TuttiError } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, type ThreadId, after, millis } from "@tutti/units";
import type { ActorRuntime } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";

/** How long shares are valid; a batcher repeats them several times meanwhile. */
const HOLD_FOR = millis(250);
const REPORT_EVERY = millis(50);
const RETRY_MS_MAX = 10_000;

interface Class {
  readonly app: number;
  readonly priority: number;
  keep: number;
  /** Grows by `keep` with each request; one that makes it whole is admitted. */
  credit: number;
  /** Requests refused since the last report. */
  shed: number;
  error: TuttiError | undefined;
}
/** The fields of a request that decide its class. */
type Classed = Pick<PendingRequest, "appId" | "priority">;
interface Lane {
  batcher: ActorKey;
  term: number;
  until: Instant;
  classes: Map<number, Class>;
}

/**
 * Refuses requests that an overloaded ModelThread would refuse anyway, by the shares that its batcher publishes
 * (docs/algorithms.md, A12). A refusal here saves a decoding, a place in memory and two messages.
 *
 *   SHED-1. Shares are accepted only from the batcher that holds the model, and expire after a quarter of a second:
 *           without news every request is admitted.
 *   SHED-2. Refusals are reported to the batcher, which would otherwise take the admitted requests for the whole
 *           demand.
 */
export class Shedding {
  readonly #runtime: ActorRuntime;
  readonly #clock: Clock;
  readonly #holds: (thread: ThreadId, batcher: ActorKey, term: number) => boolean;
  readonly #lanes = new Map<ThreadId, Lane>();
  readonly #reporting: Alarm;
  #isReporting = false;

  constructor(options: {
    readonly runtime: ActorRuntime;
    readonly clock: Clock;
    /** Whether that batcher holds the thread's model under that term. */
    readonly holds: (thread: ThreadId, batcher: ActorKey, term: number) => boolean;
  }) {
    this.#runtime = options.runtime;
    this.#clock = options.clock;
    this.#holds = options.holds;
    this.#reporting = options.clock.alarm(() => this.#report());
    this.#runtime.onPacked(SharesTold, (told, sender) => this.#onTold(told, sender));
  }

  /** Number of threads with limited classes. */
  get size(): number {
    return this.#lanes.size;
  }

  /** The refusal of a request that may not go to `thread` now. */
  refusal(thread: ThreadId, request: Classed, slo: Micros): TuttiError | undefined {
    if (this.#lanes.size === 0) return undefined;
    const one = this.#classOf(thread, request);
    if (one === undefined) return undefined;
    one.credit += one.keep;
    if (one.credit >= 1) {
      one.credit--;
      return undefined;
    }
    one.shed++;
    if (!this.#isReporting) {
      this.#isReporting = true;
      this.#reporting.set(after(this.#clock.now(), REPORT_EVERY));
    }
    // All of a class share one error until the share changes: an overloaded system refuses thousands a second.
    return (one.error ??= overloadError(retryAfterMs(slo, one.keep)));
  }

  /** Fraction of a class that is admitted now. */
  keepOf(thread: ThreadId, request: Classed): number {
    return this.#classOf(thread, request)?.keep ?? 1;
  }

  close(): void {
    this.#reporting.clear();
  }

  #classOf(thread: ThreadId, { appId, priority }: Classed): Class | undefined {
    const lane = this.#lanes.get(thread);
    if (lane === undefined) return undefined;
    if (this.#clock.now() <= lane.until) return lane.classes.get(appId * 256 + priority);
    return undefined;
  }

  #onTold({ thread, term, classes }: SharesTold, sender: ActorKey): void {
    if (!this.#holds(thread, sender, term)) return; // SHED-1
    const before = this.#lanes.get(thread);
    if (classes.length === 0 && before === undefined) return;
    const now = new Map<number, Class>();
    for (const { app, priority, keep } of classes) {
      const key = app * 256 + priority;
      const known = before?.classes.get(key);
      now.set(key, { app, priority, keep, credit: known?.credit ?? 0, shed: known?.shed ?? 0, error: undefined });
    }
    this.#reportOf(thread, before, now);
    if (classes.length === 0) this.#lanes.delete(thread);
    else this.#lanes.set(thread, { batcher: sender, term, until: after(this.#clock.now(), HOLD_FOR), classes: now });
  }

  /** Sends the last report of classes that are no longer limited. */
  #reportOf(thread: ThreadId, lane: Lane | undefined, kept: ReadonlyMap<number, Class>): void {
    const gone = [...(lane?.classes ?? [])].filter(([key, { shed }]) => shed > 0 && !kept.has(key));
    if (lane !== undefined && gone.length > 0)
      this.#tell(
        thread,
        lane,
        gone.map(([, one]) => one),
      );
  }

  /** SHED-2. */
  #report(): void {
    this.#isReporting = false;
    const now = this.#clock.now();
    for (const [thread, lane] of this.#lanes) {
      const shed = [...lane.classes.values()].filter((one) => one.shed > 0);
      if (shed.length > 0) this.#tell(thread, lane, shed);
      if (now > lane.until) this.#lanes.delete(thread);
    }
    // While any class is limited, the next request may be refused without setting the alarm.
    if (this.#lanes.size === 0) return;
    this.#isReporting = true;
    this.#reporting.set(after(now, REPORT_EVERY));
  }

  #tell(thread: ThreadId, { batcher, term }: Lane, classes: readonly Class[]): void {
    this.#runtime.send(batcher, RequestsShed, {
      thread,
      term,
      classes: classes.map(({ app, priority, shed }) => ({ app, priority, count: shed })),
    });
    for (const one of classes) one.shed = 0;
  }
}

/**
 * When sending again makes sense: after the time that the class's share takes to serve the requests of one SLO. At ten
 * times its share that is ten SLOs; at least a millisecond and at most ten seconds.
 */
export function retryAfterMs(slo: Micros, keep: number): number {
  const wait = slo / Math.max(keep, 1e-6) / 1_000;
  return Math.min(RETRY_MS_MAX, Math.max(1, Math.ceil(wait)));
}

const overloadError = (waitMs: number): TuttiError =>
  new TuttiError("TUTTI_OVERLOADED", "the model is overloaded, and this application's share of it is used up", {
    retryAfterMs: waitMs,
  });
