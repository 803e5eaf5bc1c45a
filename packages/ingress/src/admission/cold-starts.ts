import type { Clock, Stop } from "@tutti/ports/clock";
import { ModelsWanted, TuttiError } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type Micros, formatDuration, micros, modelNumberOf, seconds } from "@tutti/units";
import { type ActorRuntime, type CatalogModel, PlacementWatcher } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";

export interface ColdStartsOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly pending: Pick<PendingRequests, "forEach">;
  /** Models of the pipelines under way. A later stage has no request yet, and its model must be there when it has. */
  readonly staged: () => Iterable<Pick<CatalogModel, "spec">>;
}

/** Interval at which models are reported to the planner again, for as long as requests wait. */
const REPORT_EVERY = seconds(1);
const NONE = micros(0);

/**
 * Requests for parked models (PL6 of the protocol's placement): they have the time of a cold start beyond their SLOs,
 * and the planner is told of them at once, so that it wakes the model.
 */
export class ColdStarts {
  readonly #options: ColdStartsOptions;
  readonly #placement: PlacementWatcher;
  readonly #reporting: Stop;
  /** Models that were reported to the planner since the last look. */
  readonly #reported = new Set<number>();

  constructor(options: ColdStartsOptions) {
    const { store, runtime, clock } = options;
    this.#options = options;
    this.#placement = new PlacementWatcher(store, runtime.log, () => this.#look());
    this.#reporting = clock.every(REPORT_EVERY, () => this.#look());
  }

  open(ready: () => void): void {
    this.#placement.open(ready);
  }
  close(): void {
    this.#reporting.stop();
    this.#placement.close();
  }

  /** Additional time of a request for the model now; 0: the model is not parked. */
  timeOf({ spec }: Pick<CatalogModel, "spec">): Micros {
    return this.#placement.isParked(spec.number) ? (spec.scaleToZero?.coldStart ?? NONE) : NONE;
  }

  /** Reports to the planner that a request needs the model: a parked one is loaded, another one stays. */
  want({ spec }: Pick<CatalogModel, "spec">): void {
    if (spec.scaleToZero === undefined || this.#reported.has(spec.number)) return;
    this.#reported.add(spec.number);
    this.#options.runtime.broadcast("planner", ModelsWanted, { numbers: [spec.number] });
  }

  /** The error of a request whose time is over while no executor serves its model; undefined: one does. */
  failure({ model, coldStart }: PendingRequest): TuttiError | undefined {
    const { name, number } = model.spec;
    const isLoaded = this.#placement.subClusterOf(number) !== undefined;
    if (coldStart === 0 || isLoaded || !this.#placement.isParked(number)) return undefined;
    const text = `"${name}" was parked, and no executor had loaded it ${formatDuration(coldStart)} later (its cold start)`;
    return new TuttiError("TUTTI_UNAVAILABLE", `${text}: "tutti plan --live" says why`, { retryAfterMs: RETRY_MS });
  }

  /** Requests that came before their model was parked count too: it stays, or comes back. */
  #look(): void {
    this.#reported.clear();
    if (this.#placement.parked === 0) return;
    const look = (number: number): void => {
      if (this.#placement.isParked(number)) this.#reported.add(number);
    };
    this.#options.pending.forEach(({ thread, onSettled }) => {
      if (onSettled === undefined) look(modelNumberOf(thread));
    });
    for (const { spec } of this.#options.staged()) look(spec.number);
    if (this.#reported.size === 0) return;
    this.#options.runtime.broadcast("planner", ModelsWanted, { numbers: [...this.#reported] });
  }
}

const RETRY_MS = 1_000;

/** Warm-up requests wake no model. */
export const parkedError = (name: string): TuttiError =>
  new TuttiError("TUTTI_NOT_READY", `"${name}" is parked`, { retryAfterMs: RETRY_MS });
