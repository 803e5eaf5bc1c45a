/** The service behind both protocols: one view of the cluster, one way to infer, one model repository. */
import type { CatalogModel } from "@tutti/actors";
import { publicNameOf } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import type { Access } from "./auth/access.ts";
import { type Act, administer, checkAdministrator } from "./auth/administration.ts";
import type { HttpAnswer } from "./http/answers.ts";
import type { MediaInference } from "./media/media-inference.ts";
import { type Inference, type ModelOf, modelNamed, noModel } from "./oip/inference.ts";
import type { LongBodies } from "./oip/long-bodies.ts";
import { type IndexEntry, indexEntry, isServed, modelMetadata, serverMetadata } from "./oip/model-descriptions.ts";
import type { ModelStatistics } from "./oip/model-statistics.ts";
import type { ProtocolInference } from "./oip/protocol-inference.ts";
import type { Repository } from "./oip/repository.ts";
import type { SharedMemory } from "./shared-memory/shared-memory.ts";

export interface InferenceServiceParts {
  readonly log: Logger;
  readonly modelOf: ModelOf;
  /** All served versions of a model, the one under its own name first. */
  readonly versionsOf: (name: string) => readonly string[];
  readonly models: () => readonly CatalogModel[];
  readonly missing: () => string[];
  readonly unserved: () => string[];
  readonly scaling: (path: string) => HttpAnswer | undefined;
  readonly statistics: (model: CatalogModel) => ModelStatistics;
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

  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  modelNamed(name: string, version: string | undefined): CatalogModel {
    const model = this.modelOrPipeline(name, version);
    if (model === undefined) throw noModel(name);
    return model;
  }
  /** @returns undefined: a pipeline, if one has this name. @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  modelOrPipeline(name: string, version: string | undefined): CatalogModel | undefined {
    return modelNamed(this.#parts.modelOf, name, version);
  }
  serverMetadata(): ReturnType<typeof serverMetadata> {
    return serverMetadata(this.memory.isOpen ? ["system_shared_memory"] : []);
  }
  metadata(model: CatalogModel): ReturnType<typeof modelMetadata> {
    return modelMetadata(model, this.#parts.versionsOf(publicNameOf(model.spec.name)));
  }
  models(): readonly CatalogModel[] {
    return this.#parts.models();
  }
  /** Whether requests to a model can be answered; an unknown model is not ready. */
  isReady(name: string, version: string | undefined): boolean {
    const model = version === "" ? this.#parts.modelOf(name) : this.#parts.modelOf(name, version);
    if (model === undefined) return false;
    return isServed(model) && this.missing().length === 0;
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
  statistics(model: CatalogModel): ModelStatistics {
    return this.#parts.statistics(model);
  }
  index(): readonly IndexEntry[] {
    return this.models().map(indexEntry);
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
