/**
 * A placement in progress: the models and executors of each sub-cluster, and whether the executors can hold the models.
 */
import type { ExecutorToPlace, ModelToPlace, PlacementProblem, PlacementReason } from "./placement-problem.ts";

/** A model's place; changed only by the draft, which maintains sums. */
export interface DraftModel {
  readonly model: ModelToPlace;
  /** Sub-cluster that serves it; undefined: none. */
  readonly home: string | undefined;
  readonly next: string | undefined;
}

interface Held {
  /** Models that it has or will have, and their memory: executors hold both (PL1). */
  models: number;
  memory: number;
  /** Memory that the largest run of one of them takes besides. */
  dynamic: number;
  /** Number, rate and work of the models that stay or come. */
  modelsThen: number;
  rateThen: number;
  workThen: number;
}

type Size = Pick<ModelToPlace, "memoryBytes" | "dynamicBytes">;
type Coming = Size & Pick<ModelToPlace, "number">;
type Placed = Coming & { readonly subCluster: string };

export const destinationOf = ({ home, next }: DraftModel): string | undefined => next ?? home;

export class PlacementDraft {
  readonly problem: PlacementProblem;
  readonly models: readonly DraftModel[];
  readonly executors: readonly ExecutorToPlace[];
  /** Sub-cluster by executor. */
  readonly places = new Map<number, string>();
  readonly reasons: PlacementReason[] = [];
  /**
   * Executors' memory, descending. A solution exists only if the i-th largest executor holds the i-th largest
   * sub-cluster.
   */
  readonly #capacities: readonly ExecutorToPlace[];
  /** Memory by executor of the models that run there, where that is more than it has. */
  readonly #overBytes = new Map<number, number>();
  readonly #living: ReadonlySet<string>;
  readonly #held = new Map<string, Held>();
  readonly #executors = new Map<string, ExecutorToPlace[]>();
  /** Rate, memory and work of all models together. */
  readonly rate: number;
  readonly memory: number;
  readonly work: number;

  constructor(problem: PlacementProblem) {
    this.problem = problem;
    this.#living = new Set(problem.subClusters);
    const before = new Map(problem.before?.models.map((placed) => [placed.number, placed]));
    this.models = problem.models
      .map((model): DraftModel => {
        const placed = before.get(model.number);
        if (placed !== undefined || problem.before !== undefined)
          return { model, home: placed?.subCluster, next: placed?.next };
        // There is no earlier plan: a loaded model is served where its executor is.
        const holder = problem.executors.find(({ loaded }) => loaded.has(model.number));
        return { model, home: holder?.subCluster, next: undefined };
      })
      .sort((a, b) => a.model.number - b.model.number);
    for (const entry of this.models) this.#count(entry, 1);
    this.rate = this.models.reduce((sum, { model }) => sum + model.rate, 0);
    this.memory = this.models.reduce((sum, { model }) => sum + model.memoryBytes, 0);
    this.work = this.models.reduce((sum, { model }) => sum + model.work, 0);
    const owned = new Map(problem.before?.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
    const placeOf = (executor: ExecutorToPlace): string | undefined =>
      problem.before === undefined ? executor.subCluster : firstOf(executor, owned);
    this.executors = problem.executors;
    this.#capacities = this.executors.toSorted((a, b) => b.memoryBytesMax - a.memoryBytesMax);
    for (const executor of this.executors) {
      const place = placeOf(executor);
      if (place === undefined) continue;
      this.places.set(executor.key, place);
      this.#noteOver(executor, place);
      const there = this.#executors.get(place);
      if (there === undefined) this.#executors.set(place, [executor]);
      else there.push(executor);
    }
  }

  /** Notes an executor whose models' runs were found to take more than it has. */
  #noteOver({ key, loaded, memoryBytesMax }: ExecutorToPlace, place: string): void {
    let [memory, dynamic] = [0, 0];
    for (const { model, home } of this.models) {
      if (home !== place || !loaded.has(model.number)) continue;
      memory += model.memoryBytes;
      dynamic = Math.max(dynamic, model.dynamicBytes ?? 0);
    }
    if (memory <= memoryBytesMax && memory + dynamic > memoryBytesMax) this.#overBytes.set(key, memory + dynamic);
  }

  /** Memory of an executor, and of its models' runs where they take more. */
  bytesOf({ key, memoryBytesMax }: ExecutorToPlace): number {
    return this.#overBytes.get(key) ?? memoryBytesMax;
  }

  /**
   * Whether an executor holds the models of a sub-cluster, with one more. It goes on with models that it has, though
   * their runs were found to take more than there is: nothing that runs is taken away for that, but nothing more is
   * placed there.
   */
  holds(executor: ExecutorToPlace, subCluster: string, more?: Coming): boolean {
    return executor.memoryBytesMax >= this.need(subCluster, more) || this.#runs(executor, subCluster, more);
  }
  #runs({ key, loaded }: ExecutorToPlace, subCluster: string, more?: Coming): boolean {
    if (!this.#overBytes.has(key) || (more !== undefined && !loaded.has(more.number))) return false;
    return this.models.every(
      ({ model, home, next }) => (home !== subCluster && next !== subCluster) || loaded.has(model.number),
    );
  }

  lives(subCluster: string | undefined): subCluster is string {
    return subCluster !== undefined && this.#living.has(subCluster);
  }

  set(entry: DraftModel, places: { readonly home: string | undefined; readonly next: string | undefined }): void {
    this.#count(entry, -1);
    Object.assign(entry, places);
    this.#count(entry, 1);
  }

  /** Whether it is led and may be used. */
  isOpen(subCluster: string | undefined): subCluster is string {
    return this.lives(subCluster) && this.problem.closing?.has(subCluster) !== true;
  }

  /** Whether some of its accelerators are away and may be back soon. */
  isAwaited(subCluster: string): boolean {
    const { before, awaited } = this.problem;
    return before?.gpus.some((one) => one.subCluster === subCluster && awaited.has(one.gpu)) === true;
  }

  of(subCluster: string): Readonly<Held> {
    return this.#held.get(subCluster) ?? NOTHING;
  }
  hasModels(subCluster: string): boolean {
    return this.of(subCluster).models > 0;
  }
  /** Memory that an executor of it needs, with one more model: all weights, and the largest run (E1). */
  need(subCluster: string, more?: Size): number {
    const { memory, dynamic } = this.of(subCluster);
    return memory + (more?.memoryBytes ?? 0) + Math.max(dynamic, more?.dynamicBytes ?? 0);
  }

  /** Executors that a sub-cluster had when planning began. */
  executorsOf(subCluster: string): readonly ExecutorToPlace[] {
    return this.#executors.get(subCluster) ?? [];
  }

  /**
   * Whether executors could be dealt so that each sub-cluster with models has one that holds them, with one more model
   * in one of them.
   */
  couldHold(more?: Placed): boolean {
    // Where memory is full, most places fail by this alone. An executor may go on with more than it has.
    const largest = this.#capacities[0]?.memoryBytesMax ?? 0;
    if (more !== undefined && this.#overBytes.size === 0 && this.need(more.subCluster, more) > largest) return false;
    return this.misfit(more) === undefined;
  }

  /** A sub-cluster that is too large, or one too many; undefined where all have what they need. */
  misfit(more?: Placed): string | undefined {
    const needs = this.problem.subClusters
      .filter((subCluster) => more?.subCluster === subCluster || this.hasModels(subCluster))
      .map((subCluster) => ({
        subCluster,
        memory: this.need(subCluster, more?.subCluster === subCluster ? more : undefined),
        executors: this.executorsOf(subCluster).length,
      }));
    // Where needs are equal, the sub-cluster without executors comes last: it is the first to be left out.
    needs.sort((a, b) => b.memory - a.memory || b.executors - a.executors);
    if (needs.length > this.#capacities.length)
      return (needs.findLast(({ executors }) => executors === 0) ?? needs.at(-1))!.subCluster;
    // An executor that goes on with a sub-cluster's models is for no other.
    const goingOn = new Set<ExecutorToPlace>();
    const others = needs.filter(({ subCluster, memory }) => {
      const own = more?.subCluster === subCluster ? more : undefined;
      const there = this.#capacities.find(
        (one) => !goingOn.has(one) && one.memoryBytesMax < memory && this.#runs(one, subCluster, own),
      );
      if (there !== undefined) goingOn.add(there);
      return there === undefined;
    });
    const capacities = this.#capacities.filter((one) => !goingOn.has(one));
    return others.find(({ memory }, i) => memory > capacities[i]!.memoryBytesMax)?.subCluster;
  }

  /** Accelerators that a sub-cluster would lose because their executors can't hold one more model. */
  lostWith(subCluster: string, more: Coming): number {
    return this.executorsOf(subCluster)
      .filter((executor) => !this.holds(executor, subCluster, more))
      .reduce((sum, { gpus }) => sum + gpus.length, 0);
  }

  explain(about: string, text: string): void {
    this.reasons.push({ about, text });
  }

  /** The largest run of a sub-cluster's models, after one has come or before one goes. */
  #dynamicOf(place: string, entry: DraftModel, sign: 1 | -1): number {
    const { dynamicBytes: own = 0 } = entry.model;
    const known = this.of(place).dynamic;
    if (sign === 1) return Math.max(known, own);
    if (own < known) return known;
    return this.models
      .filter((other) => other !== entry && (other.home === place || other.next === place))
      .reduce((most, { model }) => Math.max(most, model.dynamicBytes ?? 0), 0);
  }

  #count(entry: DraftModel, sign: 1 | -1): void {
    const { model, home, next } = entry;
    const destination = destinationOf(entry);
    for (const place of new Set([home, next])) {
      if (place === undefined) continue;
      const held = this.#held.get(place) ?? { ...NOTHING };
      this.#held.set(place, held);
      held.models += sign;
      held.memory += sign * model.memoryBytes;
      held.dynamic = this.#dynamicOf(place, entry, sign);
      if (place !== destination) continue;
      held.modelsThen += sign;
      held.rateThen += sign * model.rate;
      held.workThen += sign * model.work;
    }
  }
}

const NOTHING: Held = { models: 0, memory: 0, dynamic: 0, modelsThen: 0, rateThen: 0, workThen: 0 };

/**
 * Sub-cluster of an executor: all of its accelerators are in one. A process with other accelerators than before stays
 * with the first that is known.
 */
function firstOf({ gpus }: ExecutorToPlace, owned: ReadonlyMap<number, string>): string | undefined {
  for (const gpu of gpus) {
    const place = owned.get(gpu);
    if (place !== undefined) return place;
  }
  return undefined;
}
