import {
  type ErrorCode,
  MODELS_MAX,
  type ModelSpec,
  type StatsReported,
  type TuttiError,
  threadOf,
} from "@tutti/protocol";
import { type Instant, type ThreadId, between, jobThreadOf } from "@tutti/units";
import type { PendingRequest } from "../requests/pending-request.ts";
import { countRefusal, refusals } from "../refusals/refusal-counts.ts";

class Counts {
  offered = 0;
  ok = 0;
  latencyUs = 0;
  readonly refused = new Map<ErrorCode, number>();
}

/**
 * Counters of jobs (docs/algorithms.md, A13), since the ingress' start. They are apart from those of requests, so that
 * no rate, no share in time and no advice counts a job.
 */
export class JobFigures {
  readonly #all = new Counts();
  readonly #models = new Map<ThreadId, { readonly name: string; readonly counts: Counts }>();

  /** @param spec - undefined if its model is unknown */
  refuseAtTheDoor({ code }: TuttiError, spec: ModelSpec | undefined): void {
    this.accept(spec);
    this.#refuse(code, spec);
  }

  accept(spec: ModelSpec | undefined): void {
    this.#all.offered++;
    const model = this.#of(spec);
    if (model !== undefined) model.offered++;
  }

  settle({ model: { spec }, arrivedAt }: PendingRequest, error: TuttiError | undefined, now: Instant): void {
    if (error !== undefined) return this.#refuse(error.code, spec);
    for (const counts of [this.#all, this.#of(spec)]) {
      if (counts === undefined) continue;
      counts.ok++;
      counts.latencyUs += between(arrivedAt, now);
    }
  }

  forget(spec: ModelSpec): void {
    this.#models.delete(jobThreadOf(threadOf(spec, 0)));
  }

  report(): {
    readonly figures: Readonly<Record<string, number>>;
    readonly perJobThread?: NonNullable<StatsReported["perJobThread"]>;
  } {
    const { offered, ok, refused } = this.#all;
    let refusedCount = 0;
    for (const count of refused.values()) refusedCount += count;
    const figures = { jobs: offered, jobsOk: ok, jobsRefused: refusedCount };
    if (this.#models.size === 0) return { figures };
    const perJobThread = [...this.#models].map(([thread, { name, counts }]) => {
      const { offered, ok, latencyUs } = counts;
      return { thread, name, figures: { offered, ok, latencyUs, ...refusals(counts.refused) } };
    });
    return { figures, perJobThread };
  }

  #refuse(code: ErrorCode, spec: ModelSpec | undefined): void {
    for (const counts of [this.#all, this.#of(spec)]) if (counts !== undefined) countRefusal(counts.refused, code);
  }

  #of(spec: ModelSpec | undefined): Counts | undefined {
    if (spec === undefined) return undefined;
    const thread = jobThreadOf(threadOf(spec, 0));
    let model = this.#models.get(thread);
    if (model === undefined && this.#models.size < MODELS_MAX)
      this.#models.set(thread, (model = { name: spec.variant?.family ?? spec.name, counts: new Counts() }));
    return model?.counts;
  }
}
