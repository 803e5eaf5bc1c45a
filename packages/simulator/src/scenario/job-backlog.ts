/** Jobs of a simulation: always so many wait that any accelerator could run a batch of them. */
import { type Cluster, type DispatchedBatch, jobRunMax, profileOfJobs } from "@tutti/scheduling";
import type { LatencyTable } from "@tutti/profile";
import { ALWAYS, type Instant, type Micros, type ThreadId, modelNumberOf, threadId } from "@tutti/units";
import { ArrivedRequest } from "./arrived-request.ts";
import type { ScenarioModel } from "./scenario.ts";
import type { SimClusterOptions, SimListener } from "../cluster/simulated-cluster.ts";

/** Time that jobs have, µs: none is ever late. */
const DAY = 86_400e6 as Micros;
/** Largest batches that wait for each accelerator, and the most jobs that wait. */
const BATCHES_WAITING = 2;
const WAITING_MAX = 32_768;

/** Settings of a ModelThread for jobs: a batch starts whenever it may. */
export const JOB_TUNING = { policy: { kind: "eager" }, gather: "head", slo: DAY, isForJobs: true } as const;

type Delays = Readonly<Record<"ctrl" | "perItem" | "respond", Micros>>;

/** The longest that a batch of jobs may run beside these models (docs/algorithms.md, A13). */
export function jobRunMaxBeside(models: readonly ScenarioModel[], { ctrl, perItem, respond }: Delays): Micros {
  const slacks = models.map(({ slo, classes, profile }) => {
    const least = Math.min(slo, ...classes.map((one) => one.slo));
    return least - profile.latency(1) - ctrl - perItem - respond;
  });
  return jobRunMax(slacks);
}

interface Job {
  /** Its place among the scenario's jobs. */
  readonly place: number;
  readonly thread: ThreadId;
  readonly profile: LatencyTable;
}

export class JobBacklog {
  /** Jobs of which at least one can run in time. */
  readonly jobs: readonly Job[];
  readonly #models: number;
  readonly #gpus: number;
  readonly #until: Instant;
  readonly #listener: SimListener;
  #made = 0;

  constructor({ models, gpus, backlog, listener }: SimClusterOptions, delays: Delays) {
    const runMax = backlog === undefined ? 0 : jobRunMaxBeside(models, delays);
    const profiles = (backlog?.jobs ?? []).map(({ profile }) => profileOfJobs(profile, runMax as Micros));
    const some = profiles.flatMap((profile, place) => (profile === undefined ? [] : [{ place, profile }]));
    this.jobs = some.map((one, i) => ({ ...one, thread: threadId(models.length + i, 0) }));
    this.#models = models.length;
    this.#gpus = gpus;
    this.#until = backlog?.until ?? ALWAYS;
    this.#listener = listener;
  }

  /** Makes the first jobs. */
  begin(cluster: Cluster): void {
    for (const [i, { profile }] of this.jobs.entries())
      this.#add(cluster, i, Math.min(WAITING_MAX, BATCHES_WAITING * this.#gpus * profile.batchSizeMax));
  }

  isOf({ thread }: DispatchedBatch): boolean {
    return modelNumberOf(thread) >= this.#models;
  }
  /** Reports a batch of jobs and replaces them. */
  finished(cluster: Cluster, batch: DispatchedBatch, begin: Instant, end: Instant): void {
    const index = modelNumberOf(batch.thread) - this.#models;
    const size = batch.requests.length;
    this.#listener.jobsFinished?.({ job: this.jobs[index]!.place, gpu: batch.grant.gpu, size }, begin, end);
    if (cluster.now < this.#until) this.#add(cluster, index, size);
  }

  #add(cluster: Cluster, index: number, count: number): void {
    const at = Math.max(0, cluster.now) as Instant;
    const model = this.#models + index;
    for (let i = 0; i < count; i++) cluster.arrive(model, new ArrivedRequest(++this.#made, model, at, DAY));
  }
}
