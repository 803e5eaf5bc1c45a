import type { Delivery } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { PIPELINE_INSTANCES_MAX, type PipelineSpec, type StageSpec } from "@tutti/pipelines";
import { HEADER, type PipelineReport, TuttiError } from "@tutti/protocol";
import type { Steps } from "@tutti/ports/steps";
import type { Logger, Tracer } from "@tutti/ports/telemetry";
import { type Micros, micros } from "@tutti/units";
import type { Catalog, CatalogModel } from "@tutti/actors/runtime";
import { checkRoom, readForm, readPriority, readTiming, readWanted } from "../admission/admission.ts";
import type { Answers } from "../requests/answers.ts";
import type { CancellationHandler } from "../requests/cancellation-handler.ts";
import type { ColdStarts } from "../admission/cold-starts.ts";
import type { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";
import type { IngressFigures } from "../figures/ingress-figures.ts";
import type { PartId } from "../figures/part-figures.ts";
import type { RefusalLog } from "../refusals/refusal-log.ts";
import { endOutcomeSpan } from "../figures/request-spans.ts";
import { TermsError } from "../requests/terms-error.ts";
import type { VersionRouter } from "../admission/version-router.ts";
import { PipelineMeasures } from "./pipeline-measures.ts";
import { PipelineRun } from "./pipeline-run.ts";

/** Pipelines that an ingress serves, and the port that runs their functions. */
export interface ServedPipelines {
  readonly specs: readonly PipelineSpec[];
  readonly steps: Steps;
  /** Default: PIPELINE_INSTANCES_MAX. */
  readonly instancesMax?: number;
}

export interface PipelineRunnerOptions {
  readonly pipelines: ServedPipelines;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly log: Logger;
  readonly catalog: Catalog;
  readonly versions: Pick<VersionRouter, "resolve">;
  readonly pending: PendingRequests;
  readonly coldStarts: Pick<ColdStarts, "timeOf" | "want">;
  readonly cancels: CancellationHandler;
  readonly answers: Answers;
  readonly figures: IngressFigures;
  readonly refusals: Pick<RefusalLog, "note">;
  /** d_resp. */
  readonly respond: () => Micros;
  /** Admits and holds a stage's request like any other. */
  readonly submit: (request: PendingRequest, tensors: Uint8Array) => void;
  readonly withdraw: (held: PendingRequest) => void;
  readonly onEnded: () => void;
}

interface Served {
  readonly spec: PipelineSpec;
  readonly measures: PipelineMeasures;
}

/** A request that was admitted, with the models of its stages. */
interface Begun {
  readonly models: readonly CatalogModel[];
  readonly payload: Uint8Array;
  readonly versionBy: string;
}

/** Takes requests to pipelines, and answers each exactly once (T1). */
export class PipelineRunner {
  readonly #options: PipelineRunnerOptions;
  readonly #served: ReadonlyMap<string, Served>;
  /** The instances under way, and the models of their stages. */
  readonly #runs = new Map<PipelineRun, readonly CatalogModel[]>();
  readonly #instancesMax: number;
  readonly #reports: readonly PipelineReport[];

  constructor(options: PipelineRunnerOptions) {
    const { pipelines, catalog } = options;
    this.#options = options;
    this.#instancesMax = pipelines.instancesMax ?? PIPELINE_INSTANCES_MAX;
    this.#served = new Map(
      pipelines.specs.map((spec) => [spec.name, { spec, measures: new PipelineMeasures(spec, catalog) }]),
    );
    this.#reports = pipelines.specs.map(({ name, version, slo, stages, inputs = [], outputs = [] }) => ({
      ...{ name, version, slo, inputs, outputs },
      stages: stages.map((stage) => ({ name: stage.name, model: stage.model })),
    }));
    if (this.#served.size !== pipelines.specs.length)
      throw new TuttiError("TUTTI_INTERNAL", "two pipelines have the same name: give each a name of its own");
  }

  /** Instances under way. */
  get size(): number {
    return this.#runs.size;
  }
  /** Models of the stages of all instances under way; one may come several times. */
  *models(): Iterable<CatalogModel> {
    for (const models of this.#runs.values()) yield* models;
  }
  /** The pipelines as gateways describe them. */
  get reports(): readonly PipelineReport[] {
    return this.#reports;
  }
  names(): Iterable<string> {
    return this.#served.keys();
  }
  has(target: string): boolean {
    return this.#served.has(target);
  }
  /** Pipelines that have the name of a model, which they hide. */
  clashes(): string[] {
    return [...this.#served.keys()].filter((name) => this.#options.catalog.target(name) !== undefined);
  }

  /** @throws {TuttiError} the request is refused on arrival */
  receive(delivery: Delivery, request: PendingRequest): void {
    const { target, reply, arrivedAt } = request;
    const served = this.#served.get(target)!;
    const { spec } = served;
    if (delivery.header(HEADER.job) !== undefined)
      throw new TermsError(`"${target}" is a pipeline: jobs are for models`);
    const version = delivery.header(HEADER.version);
    if (version !== undefined && version !== spec.version)
      throw new TuttiError(
        "TUTTI_NOT_FOUND",
        `"${target}" is served in version ${spec.version}, not ${version.slice(0, 80)}: leave ${HEADER.version} out to take what is there`,
      );
    // The stages of a retry go to the same versions as those of the first attempt.
    const versionBy = delivery.header(HEADER.messageId) ?? reply;
    const models = spec.stages.map((stage) => this.#modelOf(stage, versionBy, `stage ${stage.name}: `));
    const { deadline, slo } = readTiming(delivery, spec.slo, arrivedAt);
    request.deadline = deadline;
    request.slo = slo;
    request.form = readForm(delivery);
    request.priority = readPriority(delivery);
    request.wanted = readWanted(delivery);
    checkRoom(this.#options.pending, request, delivery.payload.byteLength);
    if (this.#runs.size >= this.#instancesMax)
      throw new TuttiError(
        "TUTTI_OVERLOADED",
        `this ingress has ${this.#runs.size} requests to pipelines under way and takes no more for now (PIPELINE_INSTANCES_MAX)`,
        { retryAfterMs: 50 },
      );
    this.#wake(models, request);
    // The delivery's payload is borrowed.
    this.#begin(served, request, { models, payload: new Uint8Array(delivery.payload), versionBy });
  }

  /** The models of all stages are loaded at once; the whole has the time of the longest cold start. */
  #wake(models: readonly CatalogModel[], request: PendingRequest): void {
    const { coldStarts } = this.#options;
    let longest = micros(0);
    for (const model of models) {
      const time = coldStarts.timeOf(model);
      if (time > longest) longest = time;
    }
    if (longest === 0) return;
    // The models of later stages have to stay while those of earlier ones are loaded.
    for (const model of models) coldStarts.want(model);
    request.waitsFor(longest);
  }

  #begin({ spec, measures }: Served, request: PendingRequest, { models, payload, versionBy }: Begun): void {
    const { pipelines, clock, tracer, pending, cancels, respond, submit, withdraw } = this.#options;
    const { parts } = this.#options.figures;
    request.keepIds();
    const stageOf = (name: string): PartId => ({ kind: "stage", of: spec.name, name });
    const run = new PipelineRun(spec, request, payload, {
      ...{ measures, clock, tracer, pending, respond, submit, withdraw },
      steps: pipelines.steps,
      modelOf: (stage) => this.#modelOf(stage, versionBy, ""),
      whileCancellable: (cancel) => cancels.holdWhole(request.reply, request.appId, cancel),
      onAsked: (stage, requests) => parts.offered(stageOf(stage), requests),
      onAnswered: (stage, late) => parts.answered(stageOf(stage), { late }),
      onRefused: (stage, { code }) => parts.refused(stageOf(stage), code),
      onEnd: (ended, outcome) => this.#end(ended, outcome),
    });
    this.#runs.set(run, models);
    run.begin();
  }

  /**
   * Returns a stage's model if it serves. A missing model makes the pipeline NOT_READY; other errors keep their code.
   */
  #modelOf({ model }: StageSpec, versionBy: string, prefix: string): CatalogModel {
    try {
      return this.#options.versions.resolve({ target: model, version: undefined, id: versionBy }).model;
    } catch (error) {
      if (!(error instanceof TuttiError)) throw error;
      const { code, message, retryable, retryAfterMs } = error;
      if (code === "TUTTI_NOT_FOUND")
        throw new TuttiError(
          "TUTTI_NOT_READY",
          `${prefix}its model "${model}" is not loaded: "tutti models" lists what is`,
          { retryable: false },
        );
      const again = retryAfterMs === undefined ? { retryable } : { retryable, retryAfterMs };
      throw new TuttiError(code, `${prefix}${message}`, again);
    }
  }

  #end(run: PipelineRun, outcome: Uint8Array | TuttiError): void {
    const { answers, figures, refusals, clock, onEnded } = this.#options;
    const { spec, request } = run;
    this.#runs.delete(run);
    const now = clock.now();
    let error: TuttiError | undefined;
    if (outcome instanceof TuttiError) {
      error = outcome;
      answers.refuse(request.reply, outcome);
    } else error = answers.ok(request, { name: spec.name, version: spec.version, outputs: [] }, outcome);
    figures.settlePipeline(spec.name, request, error, now);
    refusals.note(request, { error, by: "ingress", now, results: undefined });
    if (request.span !== undefined) endOutcomeSpan(request.span, { error, late: now > request.deadline, now });
    onEnded();
  }
}
