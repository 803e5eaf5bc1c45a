/**
 * Which models are parked: models that may leave every executor while nobody asks for them (docs/planning.md, Scale to
 * zero; PL6 of the protocol's placement).
 *
 *   PARK-1. A model leaves in two steps. First it is marked, and served as before, until every ingress has seen the
 *           mark and gives its requests the time of a cold start. If one comes meanwhile, it stays.
 *   PARK-2. A model that is asked for is loaded where planPlacement puts it, beside the models that are served there.
 *           It is placed once one of the executors there has it: others load it at that time too, and an executor
 *           that can't must not keep it from everybody.
 *   PARK-3. A model that nobody asks for while it is loaded is parked again. So is one that has room nowhere, until
 *           there is room.
 */
import { type Instant, type Micros, between, seconds } from "@tutti/units";
import type { ExecutorToPlace, PlacementPlan, Places } from "./placement-problem.ts";

/** PARK-1: time in which every ingress sees the mark, and names the model if it has a request for it. */
export const LEAVES_AFTER: Micros = seconds(2);

export interface ParkedPlace {
  readonly number: number;
  readonly since: Instant;
  /** Sub-cluster whose executors load it. */
  readonly next?: string;
}
export type ParkingPlaces = Places & { readonly parked?: readonly ParkedPlace[] };

/** A model that may be parked: it is measured, and its configuration allows it. */
export interface ModelToPark {
  readonly number: number;
  readonly idle: Micros;
  /** When it was last asked for. */
  readonly usedAt: Instant;
}

export interface Parking {
  /** The parked models. `next` is where one was being loaded before: planPlacement may choose another sub-cluster. */
  readonly parked: readonly ParkedPlace[];
  /** Models without a place: planPlacement gets no such model. */
  readonly unplaced: ReadonlySet<number>;
  /** Models that are to be loaded: planPlacement places them, and doesn't balance them. */
  readonly waking: ReadonlySet<number>;
  /** Places to plan from: those of waking models are where they are being loaded. */
  readonly before: Places | undefined;
}

/** The state of each model that may be parked, now. Models that may not be are placed like any other. */
export function parkModels(before: ParkingPlaces | undefined, models: readonly ModelToPark[], now: Instant): Parking {
  if (before === undefined) return { parked: [], unplaced: new Set(), waking: new Set(), before };
  const marks = new Map(before.parked?.map((mark) => [mark.number, mark]));
  const places = new Map(before.models.map((place) => [place.number, place]));
  const parked: ParkedPlace[] = [];
  const [unplaced, waking, loading] = [new Set<number>(), new Set<number>(), new Map<number, string>()];
  for (const { number, idle, usedAt } of models) {
    const [mark, place] = [marks.get(number), places.get(number)];
    const isIdle = between(usedAt, now) >= idle;
    if (place !== undefined) {
      if (!isIdle || place.next !== undefined) continue;
      const since = mark?.since ?? now;
      parked.push({ number, since });
      if (between(since, now) >= LEAVES_AFTER) unplaced.add(number);
    } else if (mark !== undefined) {
      const { since, next } = mark;
      if (usedAt <= since || isIdle) {
        parked.push({ number, since });
        unplaced.add(number);
      } else {
        parked.push(mark);
        waking.add(number);
        if (next !== undefined) loading.set(number, next);
      }
    }
  }
  const kept = before.models.filter(({ number }) => !unplaced.has(number));
  const loaded = [...loading].map(([number, subCluster]) => ({ number, subCluster }));
  return { parked, unplaced, waking, before: { models: [...kept, ...loaded], gpus: before.gpus } };
}

/** PARK-2: takes out of a plan's places the waking models that no executor there has yet. */
export function loadWaking(
  plan: Pick<PlacementPlan, "models" | "gpus">,
  { parked, waking }: Pick<Parking, "parked" | "waking">,
  executors: readonly ExecutorToPlace[],
): Required<ParkingPlaces> {
  if (waking.size === 0) return { models: plan.models, gpus: plan.gpus, parked };
  const placed = new Map<number, string>(plan.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  const isLoaded = (number: number, home: string): boolean => {
    return executors.some(
      ({ subCluster, gpus: [gpu = -1], loaded }) =>
        subCluster === home && placed.get(gpu) === home && loaded.has(number),
    );
  };
  const homes = new Map(plan.models.map(({ number, subCluster, next = subCluster }) => [number, next]));
  const loaded = new Set([...waking].filter((number) => isLoaded(number, homes.get(number) ?? "")));
  return {
    models: plan.models.flatMap((place) => {
      if (!waking.has(place.number)) return [place];
      return loaded.has(place.number) ? [{ number: place.number, subCluster: homes.get(place.number)! }] : [];
    }),
    gpus: plan.gpus,
    parked: parked
      .filter(({ number }) => !loaded.has(number))
      .map((mark) => {
        const next = waking.has(mark.number) ? homes.get(mark.number) : undefined;
        return { number: mark.number, since: mark.since, ...(next !== undefined && { next }) };
      }),
  };
}

/** Whether both park the same models, in whatever order. */
export function isSameParking(a: readonly ParkedPlace[] = [], b: readonly ParkedPlace[] = []): boolean {
  const text = ({ since, next = "" }: ParkedPlace): string => `${since}>${next}`;
  const marks = new Map(a.map((mark) => [mark.number, text(mark)]));
  return a.length === b.length && b.every((mark) => marks.get(mark.number) === text(mark));
}
