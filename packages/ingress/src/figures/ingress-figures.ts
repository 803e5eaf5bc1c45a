import {
  type ErrorCode,
  MODELS_MAX,
  type ModelSpec,
  type StatsReported,
  type TuttiError,
  threadOf,
} from "@tutti/protocol";
import { SlidingHistogram } from "@tutti/profile";
import { type Instant, type ThreadId, between, seconds } from "@tutti/units";
import type { PendingRequest } from "../requests/pending-request.ts";
import { JobFigures } from "./job-figures.ts";
import { PartFigures, type PartId } from "./part-figures.ts";
import { countRefusal, refusals } from "../refusals/refusal-counts.ts";
import type { RequestEnding } from "../refusals/refusal-log.ts";
import { RequestSampler } from "./request-sampler.ts";

/** Window of the latencies of a model's answers, which covers the last five to ten seconds. */
const LATENCY_WINDOW = seconds(5);

/** Figures of one model, under the id of its first thread. */
class ModelFigures {
  readonly refused = new Map<ErrorCode, number>();
  readonly latencies = new SlidingHistogram(LATENCY_WINDOW);
  offered = 0;
  ok = 0;
  late = 0;
  latencyUs = 0;
  /** Part of it until the start of the run. */
  queueUs = 0;

  report(now: Instant): Record<string, number> {
    const { offered, ok, late, latencyUs, queueUs } = this;
    const p99Us = this.latencies.quantile(now, 0.99);
    return { offered, ok, late, latencyUs, queueUs, p99Us, ...refusals(this.refused) };
  }
}

/** Counters of an ingress. They are totals since its start, so that readers take differences and miss nothing. */
export class IngressFigures {
  readonly refused = new Map<ErrorCode, number>();
  requests = 0;
  ok = 0;
  /** Answers after the publisher's deadline: by a later step of its costs, or where the timer of INGRESS-1 was late. */
  late = 0;
  /** Results for a request that is gone, or from an executor that had not pulled it. */
  strayResults = 0;
  forbiddenPulls = 0;
  /** Requests without a reply subject, or with one that is not the application's. */
  undeliverable = 0;
  /** Sum over ok answers of the time from arrival to answer. */
  latencyUs = 0;
  batched = 0;
  readonly sampler = new RequestSampler();
  /** Figures of variants, pipelines and stages. */
  readonly parts = new PartFigures();
  readonly jobs = new JobFigures();
  readonly #models = new Map<ThreadId, { readonly name: string; readonly figures: ModelFigures }>();

  /** Counts an accepted request; each is settled once. */
  accept(spec: ModelSpec): void {
    const model = this.#of(spec);
    if (model !== undefined) model.offered++;
    if (spec.variant !== undefined) this.parts.offered(variantOf(spec.name, spec.variant));
  }

  /** Counts a stage's request that was refused on arrival, in the model's figures and in no publisher's. */
  refuseStage(code: ErrorCode, spec: ModelSpec): void {
    this.#refuseVariant(code, spec);
    const model = this.#of(spec);
    if (model === undefined) return;
    model.offered++;
    countRefusal(model.refused, code);
  }

  /** Counts the outcome of a request to a pipeline; its stages count for their models alone. */
  settlePipeline(
    pipeline: string,
    timing: { readonly arrivedAt: Instant; readonly deadline: Instant },
    error: TuttiError | undefined,
    now: Instant,
  ): void {
    const part: PartId = { kind: "pipeline", of: pipeline, name: pipeline };
    this.parts.offered(part);
    if (error !== undefined) {
      this.parts.refused(part, error.code);
      return void countRefusal(this.refused, error.code);
    }
    const late = now > timing.deadline;
    const latencyUs = between(timing.arrivedAt, now);
    this.parts.answered(part, { late, latencyUs });
    this.ok++;
    this.latencyUs += latencyUs;
    if (late) this.late++;
  }

  /** @param spec - undefined if the model is unknown */
  refuseAtTheDoor({ code }: TuttiError, spec: ModelSpec | undefined): void {
    countRefusal(this.refused, code);
    if (spec !== undefined) this.#refuseVariant(code, spec);
    const model = spec === undefined ? undefined : this.#of(spec);
    if (model === undefined) return;
    model.offered++;
    countRefusal(model.refused, code);
  }

  /** Counts a variant's request that was refused before it was accepted. */
  #refuseVariant(code: ErrorCode, { name, variant }: ModelSpec): void {
    if (variant === undefined) return;
    this.parts.offered(variantOf(name, variant));
    this.parts.refused(variantOf(name, variant), code);
  }

  settle(held: PendingRequest, { error, now, results }: RequestEnding): void {
    const { name, variant } = held.model.spec;
    if (variant !== undefined) {
      if (error !== undefined) this.parts.refused(variantOf(name, variant), error.code);
      else this.parts.answered(variantOf(name, variant), { late: now > held.deadline });
    }
    const model = this.#models.get(threadOf(held.model.spec, 0))?.figures;
    if (error !== undefined) {
      if (held.ticket?.isStage !== true) countRefusal(this.refused, error.code);
      if (model !== undefined) countRefusal(model.refused, error.code);
      return;
    }
    const latency = between(held.arrivedAt, now);
    for (const figures of [held.ticket?.isStage !== true ? this : undefined, model]) {
      if (figures === undefined) continue;
      figures.ok++;
      figures.latencyUs += latency;
      if (now > held.deadline) figures.late++;
    }
    if (model === undefined) return;
    model.latencies.note(now, latency);
    if (results !== undefined) model.queueUs += between(held.arrivedAt, results.startedAt);
  }

  forget(spec: ModelSpec): void {
    this.#models.delete(threadOf(spec, 0));
    this.jobs.forget(spec);
    if (spec.family !== undefined) this.parts.forget(spec.name);
  }

  #of(spec: ModelSpec): ModelFigures | undefined {
    const thread = threadOf(spec, 0);
    let model = this.#models.get(thread);
    if (model === undefined && this.#models.size < MODELS_MAX)
      this.#models.set(thread, (model = { name: spec.variant?.family ?? spec.name, figures: new ModelFigures() }));
    return model?.figures;
  }

  report(now: {
    readonly at: Instant;
    readonly held: number;
    readonly bytes: number;
    readonly respondUs: number;
    /** Answers sent and not yet known to have left, or sent again until their publisher is back. */
    readonly answersKept: number;
    readonly answersRepeated: number;
    readonly answersLost: number;
    /**
     * Models whose requests are shared between versions, and requests that fell back to the default. They fell back
     * because their version could not be served.
     */
    readonly routes: number;
    readonly fellBack: number;
    /** Requests to pipelines under way. */
    readonly pipelineInstances: number;
    /** Models that had their warm-up. */
    readonly warmModels: number;
  }): Pick<StatsReported, "figures" | "perThread" | "perJobThread" | "perPart"> {
    const { at, ...gauges } = now;
    const { figures: ofJobs, ...jobs } = this.jobs.report();
    const figures: Record<string, number> = {
      requests: this.requests,
      ok: this.ok,
      late: this.late,
      strayResults: this.strayResults,
      forbiddenPulls: this.forbiddenPulls,
      undeliverable: this.undeliverable,
      latencyUs: this.latencyUs,
      ...gauges,
      ...ofJobs,
      ...refusals(this.refused),
    };
    const perThread = [...this.#models].map(([thread, { name, figures: own }]) => ({
      thread,
      name,
      figures: own.report(at),
    }));
    const perPart = this.parts.report();
    return { figures, perThread, ...jobs, ...(perPart.length > 0 && { perPart }) };
  }
}

const variantOf = (name: string, { family }: { readonly family: string }): PartId => ({
  kind: "variant",
  of: family,
  name,
});
