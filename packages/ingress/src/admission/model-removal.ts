import { TuttiError } from "@tutti/protocol";
import { type ActorKey, type ThreadId, modelNumberOf } from "@tutti/units";
import type { Catalog, CatalogModel, PeerRegistry } from "@tutti/actors/runtime";
import { unservedError } from "./admission.ts";
import type { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";
import type { ArrivalStreams } from "../requests/arrival-streams.ts";

export interface ModelRemovalOptions {
  readonly pending: PendingRequests;
  readonly lanes: Pick<ArrivalStreams, "orphan" | "watches">;
  readonly catalog: Pick<Catalog, "ofThread" | "get">;
  readonly directory: Pick<PeerRegistry, "get">;
  readonly settle: (held: PendingRequest, error: TuttiError) => void;
}

/**
 * Ends the pending requests of models that are no longer served: quarantined, failed, replaced or unloaded. Their
 * ModelThreads have ended, so no batcher is responsible for these requests.
 *
 *   U1. A request that no living executor has is refused at once.
 *   U2. A request that an executor has is answered by it, and refused at once when it dies or gives the request back.
 */
export class ModelRemoval {
  readonly #options: ModelRemovalOptions;

  constructor(options: ModelRemovalOptions) {
    this.#options = options;
  }

  /** The model is no longer served, for this reason. */
  refuse({ spec }: CatalogModel, error: TuttiError): void {
    const { lanes, directory, settle } = this.#options;
    for (const held of this.#where((thread) => modelNumberOf(thread) === spec.number)) {
      if (held.executor === 0 || directory.get(held.executor) === undefined) settle(held, error);
      else lanes.orphan(held);
    }
  }

  /** U2. */
  executorLost(executor: ActorKey): void {
    const { lanes, settle } = this.#options;
    if (!lanes.watches(executor)) return;
    for (const held of this.#where((_, by) => by === executor)) {
      const error = this.#reason(held);
      if (error !== undefined) settle(held, error);
    }
  }

  /**
   * An executor gave it back without having run it. @returns whether its model is no longer served, so that it is
   * refused
   */
  givenBack(held: PendingRequest): boolean {
    const error = this.#reason(held);
    if (error !== undefined) this.#options.settle(held, error);
    return error !== undefined;
  }

  /** Returns a copy, since settling a request settles the siblings of its pipeline too. */
  #where(isMeant: (thread: ThreadId, executor: ActorKey | 0) => boolean): PendingRequest[] {
    const found: PendingRequest[] = [];
    for (const held of this.#options.pending.values()) if (isMeant(held.thread, held.executor)) found.push(held);
    return found;
  }

  /** Why the request can't be served; undefined: its model is served, or about to be. */
  #reason({ thread, model }: PendingRequest): TuttiError | undefined {
    const now = this.#options.catalog.ofThread(thread);
    if (now !== undefined) return unservedError(now);
    const { name } = model.spec;
    return this.#options.catalog.get(name) === undefined ? unloadedError(name) : replacedError(name);
  }
}

export const replacedError = (name: string): TuttiError => new TuttiError("TUTTI_NOT_READY", `"${name}" was replaced`);
export const unloadedError = (name: string): TuttiError => new TuttiError("TUTTI_NOT_FOUND", `"${name}" was unloaded`);
