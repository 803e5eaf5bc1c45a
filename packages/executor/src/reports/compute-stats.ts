/**
 * Statistics of where a model's batches spend their time at this executor. They have Triton's three parts: inputs
 * pulled, run, outputs pushed.
 */
import { type StatsReported, threadName } from "@tutti/protocol";
import { type Micros, type ThreadId, between, bucketOf } from "@tutti/units";
import type { Run } from "../batches/run.ts";

/** Threads counted separately; beyond, the one that ran longest ago is forgotten and later starts from zero. */
export const COMPUTED_THREADS_MAX = 4_096;

interface Computed {
  readonly name: string;
  requests: number;
  pullUs: number;
  runUs: number;
  pushUs: number;
}
/** The part of a run that the statistics use. */
export type ComputedRun = Pick<Run, "rows" | "receivedAt" | "readyAt"> & {
  readonly batch: { readonly thread: ThreadId };
  readonly model: { readonly spec: Run["model"]["spec"] };
};

/** Sums times by request, as Triton does it: each of a batch's requests spent the whole of the batch's time. */
export class ComputeStats {
  /** Longest idle first. */
  readonly #threads = new Map<ThreadId, Computed>();
  readonly #threadsMax: number;

  constructor(threadsMax: number = COMPUTED_THREADS_MAX) {
    this.#threadsMax = threadsMax;
  }

  note(
    { batch: { thread }, model: { spec }, rows, receivedAt, readyAt }: ComputedRun,
    run: Micros,
    push: number,
  ): void {
    if (rows === 0 || run === 0) return; // Nothing was there to run, or the run failed.
    const known = this.#threads.get(thread);
    const totals = known ?? { name: threadName(spec, bucketOf(thread)), requests: 0, pullUs: 0, runUs: 0, pushUs: 0 };
    totals.requests += rows;
    totals.pullUs += rows * between(receivedAt, readyAt);
    totals.runUs += rows * run;
    totals.pushUs += rows * push;
    this.#threads.delete(thread);
    if (this.#threads.size >= this.#threadsMax) this.#threads.delete(this.#threads.keys().next().value!);
    this.#threads.set(thread, totals);
  }

  perThread(): NonNullable<StatsReported["perThread"]> {
    return [...this.#threads].map(([thread, { name, requests, pullUs, runUs, pushUs }]) => ({
      ...{ thread, name },
      figures: { computed: requests, computePullUs: pullUs, computeRunUs: runUs, computePushUs: pushUs },
    }));
  }
}
