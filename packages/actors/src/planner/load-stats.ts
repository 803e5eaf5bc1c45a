import type { StatsReported } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, modelNumberOf, seconds, threadId } from "@tutti/units";
import type { ThreadId } from "@tutti/units";
import { RateMeter } from "./rate-meter.ts";

/** Window of rates: long enough to be steady, short enough that a step shows in half an epoch. */
const WINDOW = seconds(5);
/** Silence after which an actor is forgotten; actors report once a second. */
const SILENCE = seconds(3);

/** Refusals that more accelerators could have avoided. */
const REFUSALS = ["refused.TUTTI_OVERLOADED", "refused.TUTTI_DEADLINE_EXCEEDED"] as const;
/** Refusals of requests that became infeasible while they waited, or that no system could have met. */
const INFEASIBLE = "refused.TUTTI_DEADLINE_INFEASIBLE";

export interface ModelLoad {
  /** Requests per second, including refused ones. */
  readonly rate: number;
  /** The same between the last two reports alone, for changes that must show at once. */
  readonly latestRate: number;
  /** Per second, between the last two reports. */
  readonly ok: number;
  /** Refused or late for lack of accelerators. */
  readonly bad: number;
  /** Refused because they couldn't be run in time even alone, by the time that they were looked at. */
  readonly infeasible: number;
}

/**
 * Requests, their outcomes, and how busy accelerators are. They come from the figures that actors report once a second.
 */
export class LoadStats {
  readonly #ingresses = new RateMeter({ window: WINDOW, silence: SILENCE });
  /** Their jobs, which show that a model is used, and nothing else. */
  readonly #jobs = new RateMeter({ window: WINDOW, silence: SILENCE });
  readonly #batchers = new RateMeter({ window: WINDOW, silence: SILENCE });
  readonly #executors = new RateMeter({ window: WINDOW, silence: SILENCE });
  readonly #rankers = new RateMeter({ window: WINDOW, silence: SILENCE });

  /** @returns the models that were asked for since the last report of an ingress */
  note(stats: StatsReported, now: Instant): number[] {
    if (stats.role === "ingress") this.#ingresses.note(stats, byThread(stats.perThread), now);
    if (stats.role === "ingress") this.#jobs.note(stats, byThread(stats.perJobThread), now);
    if (stats.role === "batcher") this.#batchers.note(stats, byThread(stats.perThread), now);
    // In a process of several roles nobody knows which of them keeps its event loop busy.
    if (stats.role === "ranker" && stats.figures["loopBusyUs"] !== undefined)
      this.#rankers.note(stats, [{ id: stats.key, figures: stats.figures }], now);
    if (stats.role === "executor")
      this.#executors.note(
        stats,
        (stats.perGpu ?? []).map(({ gpu, figures }) => ({ id: gpu, figures })),
        now,
      );
    if (stats.role !== "ingress") return [];
    return [this.#ingresses, this.#jobs].flatMap((meter) => meter.grown(stats.key, "offered").map(modelOf));
  }

  /** Loads by model number. */
  models(now: Instant): Map<number, ModelLoad> {
    const of = (name: string): Map<number, number> => this.#ingresses.latest(now, name);
    const [latest, ok, late, infeasible] = [of("offered"), of("ok"), of("late"), of(INFEASIBLE)];
    const refused = REFUSALS.map(of);
    const loads = new Map<number, ModelLoad>();
    for (const [thread, rate] of this.#ingresses.rates(now, "offered")) {
      const lateHere = late.get(thread) ?? 0;
      loads.set(modelOf(thread), {
        rate,
        latestRate: latest.get(thread) ?? 0,
        ok: Math.max(0, (ok.get(thread) ?? 0) - lateHere),
        bad: refused.reduce((sum, one) => sum + (one.get(thread) ?? 0), lateHere),
        infeasible: infeasible.get(thread) ?? 0,
      });
    }
    return loads;
  }

  /** Requests per second that reach each thread, which show the share of each bucket in a model's requests. */
  threads(now: Instant): ReadonlyMap<number, number> {
    return this.#batchers.rates(now, "arrivals");
  }

  /** Share of its time for which a ranker was busy, 0 … 1; undefined: it doesn't report it. */
  busyOfRanker(ranker: ActorKey | undefined, now: Instant): number | undefined {
    const perSecond = ranker && this.#rankers.rates(now, "loopBusyUs").get(ranker);
    return perSecond === undefined ? undefined : Math.min(1, perSecond / 1e6);
  }

  /**
   * Share of time in which accelerators ran requests between their last two reports. It is 0 … 1 for each, added up
   * over all. Jobs take what is left, however much there is: their time counts as idle.
   */
  busy(now: Instant): { readonly gpus: number; readonly busy: number } {
    const all = this.#executors.latest(now, "busyUs");
    const jobs = this.#executors.latest(now, "jobsUs");
    const shares = [...all].map(([gpu, rate]) => Math.max(0, Math.min(1, (rate - (jobs.get(gpu) ?? 0)) / 1e6)));
    return { gpus: shares.length, busy: shares.reduce((sum, share) => sum + share, 0) };
  }
}

const byThread = (
  rows: StatsReported["perThread"] = [],
): { readonly id: number; readonly figures: Readonly<Record<string, number>> }[] =>
  rows.map(({ thread, figures }) => ({ id: thread, figures }));

const modelOf = (thread: number): number => modelNumberOf(thread as ThreadId);

/** Shares of a model's buckets in its requests; equal if nothing is known. */
export function bucketShares(threads: ReadonlyMap<number, number>, modelNumber: number, buckets: number): number[] {
  const counts = Array.from({ length: buckets }, (_, bucket) => threads.get(threadId(modelNumber, bucket)) ?? 0);
  const sum = counts.reduce((total, count) => total + count, 0);
  return counts.map((count) => (sum > 0 ? count / sum : 1 / buckets));
}

/** Whether a rate differs from the planned one by more than a fifth, and by more than chance explains. */
export function isOutOfBand(planned: number, measured: number, window: Micros = WINDOW): boolean {
  const difference = Math.abs(measured - planned);
  const chance = Math.sqrt(Math.max(planned, measured, 1) / (window / 1e6));
  return difference > BAND * planned && difference > SURE * chance;
}
const BAND = 0.2;
/** Standard deviations. */
const SURE = 3;
