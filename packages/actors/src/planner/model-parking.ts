import { type ModelToPark, type Parking, isSameParking, parkModels } from "@tutti/planning/live";
import type { Placement } from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";
import type { MeasuredModel } from "./measured-models.ts";

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
    for (const number of numbers) if (this.#usedAt.has(number)) this.#usedAt.set(number, now);
    return placement?.parked?.some(({ number }) => numbers.includes(number)) === true;
  }

  /** Takes the measured rates, once a second. @returns whether another model is to be parked or loaded now */
  look(measured: readonly MeasuredModel[], placement: Placement | undefined, now: Instant): boolean {
    const used = measured.filter(({ load }) => load.latestRate > 0).map(({ number }) => number);
    const isWanted = this.want(used, placement, now);
    const models = this.#models(placement, now);
    const { parked, asleep } = parkModels(placement, models, now);
    const known = new Set(models.map(({ number }) => number));
    for (const number of this.#usedAt.keys()) if (!known.has(number)) this.#usedAt.delete(number);
    const isLeaving = placement?.models.some(({ number }) => asleep.has(number)) === true;
    return isWanted || isLeaving || !isSameParking(placement?.parked, parked);
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
