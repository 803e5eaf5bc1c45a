/** The service behind both protocols: one view of the cluster, one way to infer, one model repository. */
import type { CatalogModel } from "@tutti/actors";
import { type ModelSpec, type PipelineReport, noModelError, publicNameOf } from "@tutti/protocol";
import type { Logger, Telemetry } from "@tutti/ports/telemetry";
import type { Access } from "./auth/access.ts";
import { type Act, administer, checkAdministrator } from "./auth/administration.ts";
import type { HttpAnswer } from "./http/answers.ts";
import type { MediaInference } from "./media/media-inference.ts";
import { type Inference, type ModelOf, modelNamed } from "./oip/inference.ts";
import type { LongBodies } from "./oip/long-bodies.ts";
import {
  type IndexEntry,
  indexEntries,
  isServed,
  modelConfig,
  modelMetadata,
  pipelineConfig,
  pipelineMetadata,
  serverMetadata,
} from "./oip/model-descriptions.ts";
import type { ModelStatistics } from "./oip/model-statistics.ts";
import type { ProtocolInference } from "./oip/protocol-inference.ts";
import type { Repository } from "./oip/repository.ts";
import { type Settings, logSettings, traceSettings } from "./oip/triton-settings.ts";
import type { SharedMemory } from "./shared-memory/shared-memory.ts";

export interface InferenceServiceParts {
  readonly log: Logger;
  readonly telemetry: Telemetry;
  readonly modelOf: ModelOf;
  /** All served versions of a model, the one under its own name first. */
  readonly versionsOf: (name: string) => readonly string[];
  readonly models: () => readonly CatalogModel[];
  /** Models that were unloaded and may be loaded again. */
  readonly unloaded: () => Iterable<ModelSpec>;
  /** Pipelines by name, of which only the ingresses know. */
  readonly pipelines: () => ReadonlyMap<string, PipelineReport>;
  readonly missing: () => string[];
  readonly unserved: () => string[];
  readonly scaling: (path: string) => HttpAnswer | undefined;
  readonly statistics: (model: CatalogModel) => ModelStatistics;
  readonly pipelineStatistics: (pipeline: PipelineReport) => ModelStatistics;
  readonly inference: Inference;
  readonly protocol: ProtocolInference;
  readonly longBodies: LongBodies;
  readonly media: MediaInference;
  readonly memory: SharedMemory;
  readonly repository: Repository;
  /** Undefined: the gateway asks for no keys. */
  readonly access: Access | undefined;
  /** Undefined: without keys, the repository is closed. */
  readonly token: string | undefined;
}

export class InferenceService {
  readonly #parts: InferenceServiceParts;

  constructor(parts: InferenceServiceParts) {
    this.#parts = parts;
  }

  get log(): Logger {
    return this.#parts.log;
  }
  get inference(): Inference {
    return this.#parts.inference;
  }
  get protocol(): ProtocolInference {
    return this.#parts.protocol;
  }
  get longBodies(): LongBodies {
    return this.#parts.longBodies;
  }
  get media(): MediaInference {
    return this.#parts.media;
  }
  get memory(): SharedMemory {
    return this.#parts.memory;
  }
  repository(): Repository {
    return this.#parts.repository;
  }

  /** @returns undefined: a pipeline, if one has this name. @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  modelOrPipeline(name: string, version: string | undefined): CatalogModel | undefined {
    return modelNamed(this.#parts.modelOf, name, version);
  }
  /** Whether ingresses report a pipeline of this name. */
  isPipeline(name: string): boolean {
    return this.#parts.pipelines().has(name);
  }
  logSettings(): Settings {
    return logSettings(this.#parts.telemetry);
  }
  /** @param model - empty: of all. @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  traceSettings(model = ""): Settings {
    if (model !== "") this.#find(model, undefined);
    return traceSettings(this.#parts.telemetry);
  }
  serverMetadata(): ReturnType<typeof serverMetadata> {
    return serverMetadata(this.memory.isOpen ? ["system_shared_memory"] : []);
  }
  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  metadata(name: string, version: string | undefined) {
    const found = this.#find(name, version);
    if (isPipeline(found)) return pipelineMetadata(found);
    return modelMetadata(found, this.#parts.versionsOf(publicNameOf(found.spec.name)));
  }
  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  config(name: string, version: string | undefined) {
    const found = this.#find(name, version);
    return isPipeline(found) ? pipelineConfig(found) : modelConfig(found);
  }
  models(): readonly CatalogModel[] {
    return this.#parts.models();
  }
  /**
   * Whether requests to a model or pipeline can be answered. @throws {TuttiError} NOT_FOUND, INVALID_INPUT
   */
  isReady(name: string, version: string | undefined): boolean {
    const found = this.#find(name, version);
    if (this.missing().length > 0) return false;
    return isPipeline(found) ? this.#areStagesServed(found) : isServed(found);
  }
  /** The reasons why the cluster can't answer any request. */
  missing(): string[] {
    return this.#parts.missing();
  }
  /** The reasons why the cluster can't answer requests to every desired model. */
  unready(): string[] {
    return [...this.#parts.missing(), ...this.#parts.unserved()];
  }
  scaling(path: string): HttpAnswer | undefined {
    return this.#parts.scaling(path);
  }
  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  statistics(name: string, version: string | undefined): ModelStatistics {
    const found = this.#find(name, version);
    return isPipeline(found) ? this.#parts.pipelineStatistics(found) : this.#parts.statistics(found);
  }
  allStatistics(): ModelStatistics[] {
    const { statistics, pipelineStatistics, pipelines } = this.#parts;
    return [...this.#reachable().map(statistics), ...[...pipelines().values()].map(pipelineStatistics)];
  }
  /** @param only - whether those that aren't ready are left out */
  index({ ready: only }: { readonly ready: boolean }): readonly IndexEntry[] {
    const ofPipeline = (one: PipelineReport): IndexEntry => {
      const isServing = this.#areStagesServed(one);
      const reason = isServing ? "" : "not all models of its stages are served";
      return { name: one.name, version: one.version, state: isServing ? "READY" : "UNAVAILABLE", reason };
    };
    const pipelines = this.#parts.pipelines();
    const unloaded = [...this.#parts.unloaded()].filter(({ name }) => !pipelines.has(publicNameOf(name)));
    const all = [...indexEntries(this.#reachable(), unloaded), ...[...pipelines.values()].map(ofPipeline)];
    return all.filter(({ state }) => !only || state === "READY");
  }

  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  #find(name: string, version: string | undefined): CatalogModel | PipelineReport {
    const pipeline = this.#parts.pipelines().get(name);
    // In an ingress a pipeline hides a model of its name.
    if (pipeline !== undefined && !version) return pipeline;
    const model = this.modelOrPipeline(name, version);
    if (model !== undefined) return model;
    if (pipeline === undefined || (version && version !== pipeline.version)) throw noModelError(name, this.#names());
    return pipeline;
  }
  *#names(): Iterable<string> {
    yield* this.#parts.pipelines().keys();
    for (const { spec } of this.models()) yield publicNameOf(spec.name);
  }
  /** Models that no pipeline hides. */
  #reachable(): CatalogModel[] {
    const pipelines = this.#parts.pipelines();
    return this.models().filter(({ spec }) => !pipelines.has(publicNameOf(spec.name)));
  }
  #areStagesServed({ stages }: PipelineReport): boolean {
    return stages.every(({ model }) => {
      const found = this.#parts.modelOf(model);
      return found !== undefined && isServed(found);
    });
  }

  get access(): Access | undefined {
    return this.#parts.access;
  }
  /** @param authorization - as the client sent it. @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a rejection */
  administrator(authorization: string | undefined): Promise<void> {
    return checkAdministrator(this.#parts, authorization);
  }
  /**
   * Runs an act for an administrator only, with lines in the log. @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a
   * rejection
   */
  administer<Result>(act: Act, run: () => Promise<Result>): Promise<Result> {
    return administer(this.#parts, act, run);
  }
}

const isPipeline = (found: CatalogModel | PipelineReport): found is PipelineReport => "stages" in found;
