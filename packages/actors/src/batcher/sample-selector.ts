import { APPS_TOLD_MAX, AppsCounted, MARKS_MAX, type SamplesWanted } from "@tutti/protocol";
import type { DispatchedBatch } from "@tutti/scheduling";
import { ALWAYS, type Instant, Prng, type ThreadId, after, later, micros, millis } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { OWN_APP } from "../runtime/own-request.ts";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import type { QueuedRequest } from "./dispatcher.ts";

/** q of B9: samples a second per application of a model. */
const SAMPLES_PER_SECOND = 2;
/**
 * Number of samples of a new application that are taken at a higher rate (B9). Knowledge of an unknown application is
 * worth more.
 */
const FIRST_SAMPLES = 30;
const FIRST_SAMPLES_PER_SECOND = 8;
/** Rate for a model that is known to be static, so that one which begins to vary is noticed. */
const STATIC_SAMPLES_PER_SECOND = 1 / 30;
/**
 * How often a whole batch is marked. It shows the ratio of a batch's time to that of its longest member (BATCHER-3).
 */
const WHOLE_EVERY = millis(2_500);
/** Applications of one thread that are counted separately. */
const APPS_COUNTED = 256;

/** Application number of warm-up requests, whose inputs no user would send. */
const OWN = fnv1a(OWN_APP);

/** The profiler's finding about the running times of a thread's model. */
export type Variation = "unknown" | "static" | "dynamic";

interface AppMarks {
  wantedAt: Instant;
  /** Requests marked so far, up to FIRST_SAMPLES. */
  marked: number;
  arrived: number;
}
interface ThreadMarks {
  readonly apps: Map<number, AppMarks>;
  readonly prng: Prng;
  /** Earliest time at which a batch is looked at. */
  wantedAt: number;
  wholeAt: number;
  variation: Variation;
}

/**
 * Selects requests whose isolated running time is wanted, at a bounded rate per application (docs/algorithms.md, B9).
 * It takes the first request dispatched after a random moment. The moment does not depend on running times, so long
 * requests are no likelier to be selected than short ones.
 */
export class SampleSelector {
  readonly #threads = new Map<ThreadId, ThreadMarks>();

  arrived(thread: ThreadId, app: number): void {
    if (app === OWN) return;
    const marks = this.#of(thread);
    const known = marks.apps.get(app);
    if (known !== undefined) known.arrived++;
    else if (marks.apps.size < APPS_COUNTED) {
      marks.apps.set(app, { wantedAt: ALWAYS, marked: 0, arrived: 1 });
      marks.wantedAt = 0;
    }
  }
  /** @param variation - models that are "static" are rarely sampled */
  setVariation(thread: ThreadId, variation: Variation): void {
    const marks = this.#of(thread);
    if (marks.variation !== variation) marks.wantedAt = 0;
    marks.variation = variation;
  }
  forget(thread: ThreadId): void {
    this.#threads.delete(thread);
  }

  /** Selects the requests to sample from a batch that is about to be dispatched. */
  mark(batch: DispatchedBatch, now: Instant): SamplesWanted | undefined {
    const marks = this.#threads.get(batch.thread);
    if (marks === undefined || now < marks.wantedAt) return undefined;
    const requests = batch.requests as QueuedRequest[];
    const [what, chosen] = this.#whole(marks, requests, now) ?? ["some", this.#chosen(marks, requests, now)];
    marks.wantedAt = marks.variation === "static" ? Infinity : marks.wholeAt;
    for (const { wantedAt } of marks.apps.values()) marks.wantedAt = Math.min(marks.wantedAt, wantedAt);
    if (chosen.length === 0) return undefined;
    const rows = chosen.map(({ ingress, seq, app, units }) => ({ ingress, seq, app, units }));
    return { batchId: batch.batchId, thread: batch.thread, what, rows };
  }

  /** Reports the arrivals since the last call to the profiler. */
  tell(runtime: ActorRuntime, now: Instant): void {
    for (const [thread, { apps }] of this.#threads) {
      const counts: { app: number; count: number }[] = [];
      for (const [app, marks] of apps) {
        if (marks.arrived > 0 && counts.length < APPS_TOLD_MAX) counts.push({ app, count: marks.arrived });
        // An application that returns later is added again.
        if (marks.arrived === 0 && marks.wantedAt <= now) apps.delete(app);
        marks.arrived = 0;
      }
      if (counts.length > 0) runtime.broadcast("profiler", AppsCounted, { thread, apps: counts });
    }
  }

  #of(thread: ThreadId): ThreadMarks {
    let marks = this.#threads.get(thread);
    if (marks === undefined)
      this.#threads.set(
        thread,
        (marks = { apps: new Map(), prng: new Prng(thread), wantedAt: 0, wholeAt: 0, variation: "unknown" }),
      );
    return marks;
  }

  /** The members that include the longest: the one with the most units if all have hints, else all of them. */
  #whole(
    marks: ThreadMarks,
    requests: readonly QueuedRequest[],
    now: Instant,
  ): ["all" | "longest", QueuedRequest[]] | undefined {
    if (marks.variation === "static" || now < marks.wholeAt || requests.length < 2) return undefined;
    const hinted = requests.every(({ units }) => units > 0);
    if (!hinted && requests.length > MARKS_MAX) return undefined;
    marks.wholeAt = after(now, WHOLE_EVERY);
    if (hinted) return ["longest", [requests.reduce((most, one) => (one.units > most.units ? one : most))]];
    // These members are samples too, so their applications wait for the usual interval.
    for (const { app } of requests) this.#wait(marks, app, now);
    return ["all", [...requests]];
  }

  #chosen(marks: ThreadMarks, requests: readonly QueuedRequest[], now: Instant): QueuedRequest[] {
    const { apps, prng } = marks;
    const chosen: QueuedRequest[] = [];
    const first = prng.nextInt(requests.length);
    for (let i = 0; i < requests.length && chosen.length < MARKS_MAX; i++) {
      const request = requests[(first + i) % requests.length]!;
      const app = apps.get(request.app);
      if (app === undefined || app.wantedAt > now) continue;
      chosen.push(request);
      this.#wait(marks, request.app, now);
    }
    return chosen;
  }

  /** Draws the random wait until the application's next sample. */
  #wait({ apps, prng, variation }: ThreadMarks, number: number, now: Instant): void {
    const app = apps.get(number);
    if (app === undefined) return;
    const isNew = app.marked < FIRST_SAMPLES;
    if (isNew) app.marked++;
    const perSecond = isNew ? FIRST_SAMPLES_PER_SECOND : SAMPLES_PER_SECOND;
    const perMicro = (variation === "static" ? STATIC_SAMPLES_PER_SECOND : perSecond) / 1e6;
    app.wantedAt = after(later(now, app.wantedAt), micros(Math.round(prng.nextExponential(perMicro))));
  }
}
