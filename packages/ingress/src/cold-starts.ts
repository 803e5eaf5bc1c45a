import type { Clock, Stop } from "@tutti/ports/clock";
import { ModelsWanted, TuttiError } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type Micros, formatDuration, micros, modelNumberOf, seconds } from "@tutti/units";
import { type ActorRuntime, type CatalogModel, PlacementWatcher } from "@tutti/actors/runtime";
import type { PendingRequest } from "./pending-request.ts";
import type { PendingRequests } from "./pending-requests.ts";

export interface ColdStartsOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly pending: Pick<PendingRequests, "forEach">;
}

/** Interval at which the planner is told again, for as long as requests wait. */
const TELL_EVERY = seconds(1);
const NONE = micros(0);

/**
 * Requests for parked models (PL6 of the protocol's placement): they have the time of a cold start beyond their SLOs,
 * and the planner is told of them at once, so that it wakes the model.
 */
export class ColdStarts {
  readonly #options: ColdStartsOptions;
  readonly #placement: PlacementWatcher;
  readonly #telling: Stop;
  /** Models that the planner was told of since the last look. */
  readonly #told = new Set<number>();

  constructor(options: ColdStartsOptions) {
    const { store, runtime, clock } = options;
    this.#options = options;
    this.#placement = new PlacementWatcher(store, runtime.log, () => this.#look());
    this.#telling = clock.every(TELL_EVERY, () => this.#look());
  }

  open(ready: () => void): void {
    this.#placement.open(ready);
  }
  close(): void {
    this.#telling.stop();
    this.#placement.close();
  }

  /** Additional time of a request for the model now; 0: the model is not parked. */
  timeOf({ spec }: Pick<CatalogModel, "spec">): Micros {
    return this.#placement.isParked(spec.number) ? (spec.scaleToZero?.coldStart ?? NONE) : NONE;
  }

  /** Tells the planner that a request for the parked model has come. */
  want({ spec }: Pick<CatalogModel, "spec">): void {
    if (this.#told.has(spec.number)) return;
    this.#told.add(spec.number);
    this.#options.runtime.broadcast("planner", ModelsWanted, { numbers: [spec.number] });
  }

  /** The error of a request that its batcher gave up while the model was still parked; undefined: it isn't. */
  failure({ model, coldStart }: PendingRequest): TuttiError | undefined {
    if (coldStart === 0 || this.timeOf(model) === 0) return undefined;
    const { name } = model.spec;
    const text = `"${name}" was parked, and no executor had loaded it ${formatDuration(coldStart)} later (its cold start)`;
    return new TuttiError("TUTTI_UNAVAILABLE", `${text}: "tutti plan --live" says why`, { retryAfterMs: RETRY_MS });
  }

  /** Requests that came before their model was parked count too: it stays, or comes back. */
  #look(): void {
    this.#told.clear();
    if (this.#placement.parked === 0) return;
    this.#options.pending.forEach(({ thread, onSettled }) => {
      const number = modelNumberOf(thread);
      if (onSettled === undefined && this.#placement.isParked(number)) this.#told.add(number);
    });
    if (this.#told.size > 0) this.#options.runtime.broadcast("planner", ModelsWanted, { numbers: [...this.#told] });
  }
}

const RETRY_MS = 1_000;

/** Warm-up requests wake no model. */
export const asleepError = (name: string): TuttiError =>
  new TuttiError("TUTTI_NOT_READY", `"${name}" is parked`, { retryAfterMs: RETRY_MS });
