/**
 * Assigns executors to sub-clusters so that the fullest is least full (accelerator-shares.ts).
 *
 *   PLACE-1. An executor is only where its memory holds all models, including those that are moving in.
 *   PLACE-2. An executor is taken from a sub-cluster only if another one that stays there has loaded every model that
 *            it serves there. A sub-cluster with models and without executors is given one before anything else. Where
 *            every executor that could hold its models is needed where it is, another one is first sent to relieve it,
 *            and it moves once it can.
 *   PLACE-3. An executor moves only to balance if that brings both sub-clusters closer to their ideal, together by at
 *            least as many accelerators as it drives: halves don't move back and forth.
 */
import { acceleratorShares } from "./accelerator-shares.ts";
import { type PlacementDraft } from "./placement-draft.ts";
import type { ExecutorMove, ExecutorToPlace, SubClusterLoad } from "./placement-problem.ts";
import { bytesText, gpusText } from "./placement-texts.ts";

/**
 * Share of all executors that may move at once only to balance: an executor that loads models doesn't serve its new
 * place yet.
 */
const MOVING_SHARE = 0.25;

export interface ExecutorPlaces {
  readonly moves: readonly ExecutorMove[];
  readonly unused: readonly ExecutorToPlace[];
  readonly loads: readonly SubClusterLoad[];
}

export function placeExecutorsOf(draft: PlacementDraft): ExecutorPlaces {
  const dealing = new Dealing(draft);
  dealing.releaseMisplaced();
  dealing.giveFirstOnes();
  dealing.placeFree();
  if (draft.problem.mayBalance) dealing.balance();
  return { moves: dealing.moves(), unused: dealing.free, loads: dealing.loads() };
}

interface There {
  readonly executors: ExecutorToPlace[];
  gpus: number;
}

class Dealing {
  readonly #draft: PlacementDraft;
  readonly #before: ReadonlyMap<number, string>;
  readonly #ideal: ReadonlyMap<string, number>;
  /** Number of all accelerators. */
  readonly #all: number;
  /** Sorted by their lowest accelerator. */
  readonly #executors: readonly ExecutorToPlace[];
  #known: ReadonlyMap<string, Readonly<There>> | undefined;
  free: ExecutorToPlace[] = [];
  /** Executors that relieve another one, and executors that are to be relieved: balance leaves them where they are. */
  readonly #relieving = new Set<number>();

  constructor(draft: PlacementDraft) {
    this.#draft = draft;
    this.#before = new Map(draft.places);
    this.#executors = draft.executors.toSorted((a, b) => (a.gpus[0] ?? 0) - (b.gpus[0] ?? 0) || a.key - b.key);
    this.#all = this.#executors.reduce((sum, { gpus }) => sum + gpus.length, 0);
    this.#ideal = acceleratorShares(draft, this.#all, (subCluster) => this.#gpus(subCluster));
  }

  /**
   * Frees the executors that have no place, or can't stay in theirs. As long as no sub-cluster has a leader, everything
   * stays as it is.
   */
  releaseMisplaced(): void {
    const isLed = this.#draft.problem.subClusters.length > 0;
    for (const executor of this.#executors) {
      const place = this.#draft.places.get(executor.key);
      if (place !== undefined && (!isLed || (this.#mayStay(place) && this.#fits(executor, place)))) continue;
      this.#draft.places.delete(executor.key);
      this.#known = undefined;
      this.free.push(executor);
    }
  }

  /** A closing sub-cluster keeps executors until the last of its models has gone. */
  #mayStay(place: string): boolean {
    return this.#draft.isOpen(place) || (this.#draft.lives(place) && this.#draft.hasModels(place));
  }

  /**
   * Gives an executor to each sub-cluster that has models and none (PLACE-2). The largest needs come first, since few
   * executors can hold them.
   */
  giveFirstOnes(): void {
    const lacking = [...this.#ideal.keys()]
      .filter((subCluster) => this.#of(subCluster).length === 0)
      .sort((a, b) => this.#draft.need(b) - this.#draft.need(a));
    for (const subCluster of lacking) {
      const free = this.free.find((executor) => this.#fits(executor, subCluster));
      const executor = free ?? this.#donor(subCluster);
      if (executor === undefined && this.#relieve(subCluster)) continue;
      if (executor === undefined) {
        this.#draft.explain(subCluster, `has models and no accelerator: ${this.#lackText(subCluster)}`);
        continue;
      }
      this.#explain(executor, subCluster, "which has models and no accelerator");
      this.#place(executor, subCluster);
    }
  }

  /**
   * Sends an executor to relieve one that could serve this sub-cluster but is needed where it is (PLACE-2).
   * @returns whether the relief is on its way, or there already
   */
  #relieve(subCluster: string): boolean {
    for (const needed of this.#executors) {
      const from = this.#draft.places.get(needed.key);
      if (from === undefined || !this.#fits(needed, subCluster)) continue;
      const others = this.#of(from).filter(({ key }) => key !== needed.key);
      const relief =
        others.find(({ key }) => this.#before.get(key) === from) ??
        this.free.find((executor) => this.#fits(executor, from)) ??
        this.#donor(from, needed);
      if (relief === undefined) continue;
      if (this.#draft.places.get(relief.key) !== from) {
        this.#explain(relief, from, `where it relieves ${nameOf(needed)}`);
        this.#place(relief, from);
      }
      const until = `until ${nameOf(relief)} serves in its place`;
      this.#draft.explain(
        subCluster,
        `has models and no accelerator: it waits for ${nameOf(needed)} of ${from}, ${until}`,
      );
      this.#relieving.add(needed.key).add(relief.key);
      return true;
    }
    return false;
  }

  #lackText(subCluster: string): string {
    if (this.#executors.length === 0) return "there is none";
    const memory = this.#draft.need(subCluster);
    return memory > 0 ? `none that holds their ${bytesText(memory)} can be spared` : "none can be spared";
  }

  placeFree(): void {
    const { subClusters } = this.#draft.problem;
    // Without any models, executors go to the first sub-cluster that has a leader: they are at hand when a model comes.
    const open = subClusters.filter((subCluster) => this.#draft.isOpen(subCluster));
    const places = this.#ideal.size > 0 ? [...this.#ideal.keys()] : open.slice(0, 1);
    for (const executor of [...this.free]) {
      const [to] = places
        .filter((subCluster) => this.#fits(executor, subCluster))
        .sort((a, b) => this.#surplus(a) - this.#surplus(b));
      if (to === undefined) {
        const least = Math.min(...places.map((subCluster) => this.#draft.need(subCluster)));
        const why = `it holds ${bytesText(executor.memoryBytesMax)}, and no sub-cluster needs less than ${bytesText(least)}`;
        this.#draft.explain(nameOf(executor), places.length === 0 ? "waits: nobody leads" : `is left out: ${why}`);
        continue;
      }
      this.#explain(executor, to, this.#shareText(to));
      this.#place(executor, to);
    }
  }

  /** Moves executors only to balance loads (PLACE-3). */
  balance(): void {
    const movesMax = Math.max(1, Math.floor(MOVING_SHARE * this.#executors.length));
    for (let i = 0; i < movesMax; i++) {
      const found = this.#bestMove();
      if (found === undefined) return;
      this.#explain(found.executor, found.to, this.#shareText(found.to));
      this.#place(found.executor, found.to);
    }
  }

  moves(): ExecutorMove[] {
    return this.#executors.flatMap(({ key, gpus }) => {
      const [from, to] = [this.#before.get(key), this.#draft.places.get(key)];
      return to === undefined || from === to ? [] : [{ key, gpus, from, to }];
    });
  }

  loads(): SubClusterLoad[] {
    return this.#draft.problem.subClusters.map((subCluster) => {
      const { modelsThen, rateThen, workThen, memory, dynamic } = this.#draft.of(subCluster);
      return {
        subCluster,
        models: modelsThen,
        rate: rateThen,
        work: workThen,
        memoryBytes: memory,
        dynamicBytes: dynamic,
        gpus: this.#gpus(subCluster),
        gpusIdeal: this.#ideal.get(subCluster) ?? 0,
      };
    });
  }

  #bestMove(): { readonly executor: ExecutorToPlace; readonly to: string } | undefined {
    const { subClusters } = this.#draft.problem;
    const bySurplus = subClusters.toSorted((a, b) => this.#surplus(b) - this.#surplus(a));
    for (const to of bySurplus.toReversed()) {
      if (!this.#ideal.has(to)) continue;
      for (const from of bySurplus) {
        if (from === to) break; // no further sub-cluster has more to spare
        const executor = this.#of(from)
          .filter((candidate) => this.#fits(candidate, to) && this.#isSpare(candidate, from))
          .filter(({ key }) => !this.#relieving.has(key))
          .findLast(({ gpus }) => this.#gain(from, to, gpus.length) >= gpus.length - 1e-9);
        if (executor !== undefined) return { executor, to };
      }
    }
    return undefined;
  }

  /** Accelerators by which a move brings both sides closer to their ideals. */
  #gain(from: string, to: string, gpus: number): number {
    const [surplus, lack] = [this.#surplus(from), -this.#surplus(to)];
    return Math.abs(surplus) + Math.abs(lack) - Math.abs(surplus - gpus) - Math.abs(lack - gpus);
  }

  /**
   * The spare executor of the sub-cluster with most to spare. The highest one is taken: high accelerators are idle most
   * (docs/algorithms.md, A4).
   */
  #donor(subCluster: string, besides?: ExecutorToPlace): ExecutorToPlace | undefined {
    const places = this.#draft.problem.subClusters
      .filter((from) => from !== subCluster)
      .sort((a, b) => this.#surplus(b) - this.#surplus(a));
    for (const from of places) {
      const spare = this.#of(from).findLast(
        (executor) => executor !== besides && this.#fits(executor, subCluster) && this.#isSpare(executor, from),
      );
      if (spare !== undefined) return spare;
    }
    return undefined;
  }

  /**
   * Whether an executor may leave (PLACE-2): another one that was there before stays and has loaded the same models, so
   * that serving goes on.
   */
  #isSpare(executor: ExecutorToPlace, from: string): boolean {
    if (!this.#draft.hasModels(from)) return true;
    const served = this.#draft.models.filter(({ home, model }) => home === from && executor.loaded.has(model.number));
    return this.#of(from).some(
      ({ key, loaded }) =>
        key !== executor.key && this.#before.get(key) === from && served.every(({ model }) => loaded.has(model.number)),
    );
  }
  #fits(executor: ExecutorToPlace, subCluster: string): boolean {
    return this.#draft.holds(executor, subCluster);
  }
  #of(subCluster: string): readonly ExecutorToPlace[] {
    return this.#there().get(subCluster)?.executors ?? [];
  }
  #gpus(subCluster: string): number {
    return this.#there().get(subCluster)?.gpus ?? 0;
  }
  /**
   * Executors by sub-cluster. They are computed again only after a change: they are read more often than anything
   * changes.
   */
  #there(): ReadonlyMap<string, Readonly<There>> {
    if (this.#known !== undefined) return this.#known;
    const there = new Map<string, There>();
    for (const executor of this.#executors) {
      const place = this.#draft.places.get(executor.key);
      if (place === undefined) continue;
      const known = there.get(place) ?? { executors: [], gpus: 0 };
      there.set(place, known);
      known.executors.push(executor);
      known.gpus += executor.gpus.length;
    }
    return (this.#known = there);
  }
  #surplus(subCluster: string): number {
    return this.#gpus(subCluster) - (this.#ideal.get(subCluster) ?? 0);
  }
  #place(executor: ExecutorToPlace, to: string): void {
    this.#draft.places.set(executor.key, to);
    this.#known = undefined;
    this.free = this.free.filter(({ key }) => key !== executor.key);
  }
  #shareText(subCluster: string): string {
    const ideal = this.#ideal.get(subCluster) ?? 0;
    return `whose part of the work is worth ${gpusText(ideal)} of ${this.#all}`;
  }
  #explain(executor: ExecutorToPlace, to: string, why: string): void {
    const from = this.#before.get(executor.key);
    if (from === to) return;
    this.#draft.explain(nameOf(executor), `${from === undefined ? "joins" : `goes from ${from} to`} ${to}, ${why}`);
  }
}

const nameOf = ({ gpus }: ExecutorToPlace): string =>
  gpus.length === 1 ? `accelerator ${gpus[0]}` : `accelerators ${gpus.join(", ")}`;
