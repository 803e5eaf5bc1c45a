import { type ModelToPark, type Parking, isSameParking, parkModels } from "@tutti/planning/live";
import type { Placement } from "@tutti/protocol";
import { type Instant, instant } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";

/**
 * When each model that may be parked was last asked for. A planner that starts knows no earlier requests: the idle
 * times begin anew, and what is parked or being loaded stays so.
 */
export class ModelParking {
  readonly #catalog: { models(): Iterable<CatalogModel> };
  readonly #usedAt = new Map<number, Instant>();

  constructor(catalog: { models(): Iterable<CatalogModel> }) {
    this.#catalog = catalog;
  }

  /** These models are asked for. @returns whether one of them is parked */
  want(numbers: readonly number[], placement: Placement | undefined, now: Instant): boolean {
    if (numbers.length === 0) return false;
    const since = new Map(placement?.parked?.map((mark) => [mark.number, mark.since]));
    let isParked = false;
    for (const number of numbers) {
      const parkedAt = since.get(number);
      isParked ||= parkedAt !== undefined;
      // Another planner may have parked it, whose clock is ahead of ours.
      if (parkedAt !== undefined) this.#usedAt.set(number, instant(Math.max(now, parkedAt + 1)));
      else if (this.#usedAt.has(number)) this.#usedAt.set(number, now);
    }
    return isParked;
  }

  /** Forgets all, while another planner decides: nobody looks after the idle times meanwhile. */
  rest(): void {
    this.#usedAt.clear();
  }

  /** Called once a second. @returns whether another model is to be parked or loaded now */
  look(placement: Placement | undefined, now: Instant): boolean {
    const models = this.#models(placement, now);
    const { parked, unplaced } = parkModels(placement, models, now);
    const known = new Set(models.map(({ number }) => number));
    for (const number of this.#usedAt.keys()) if (!known.has(number)) this.#usedAt.delete(number);
    const isLeaving = placement?.models.some(({ number }) => unplaced.has(number)) === true;
    return isLeaving || !isSameParking(placement?.parked, parked);
  }

  now(placement: Placement | undefined, now: Instant): Parking {
    return parkModels(placement, this.#models(placement, now), now);
  }

  /** A model that isn't ready must be loaded, so that it can be measured. */
  #models(placement: Placement | undefined, now: Instant): ModelToPark[] {
    const models: ModelToPark[] = [];
    const marks = new Map(placement?.parked?.map((mark) => [mark.number, mark]));
    for (const { spec, status } of this.#catalog.models()) {
      const { number, scaleToZero } = spec;
      if (scaleToZero === undefined || status?.state !== "ready") continue;
      const mark = marks.get(number);
      const isParked = mark !== undefined && mark.next === undefined;
      const usedAt = this.#usedAt.get(number) ?? (isParked ? mark.since : now);
      this.#usedAt.set(number, usedAt);
      models.push({ number, idle: scaleToZero.idle, usedAt });
    }
    return models;
  }
}
