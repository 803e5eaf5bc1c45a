/** Moves of placed models that make room for one that has it nowhere (MP8). */
import { type DraftModel, type PlacementDraft, destinationOf } from "./placement-draft.ts";
import type { ModelMove, ModelToPlace } from "./placement-problem.ts";
import { bytesText } from "./placement-texts.ts";

export interface RoomMoves {
  readonly moves: readonly ModelMove[];
  /** The model for which room is being made, by these moves or those before. */
  readonly waiting: number | undefined;
}

interface Tries {
  left: number;
}

interface Search {
  readonly places: readonly string[];
  readonly tries: Tries;
}

interface Room {
  /** Sub-cluster that has it once the movers have gone: theirs, or one that an accelerator can hold then. */
  readonly in: string;
  readonly movers: ReadonlyMap<DraftModel, string>;
  /** Accelerators that the targets would lose, and bytes that move. */
  readonly lost: number;
  readonly bytes: number;
}

/**
 * Places and moves looked at in one plan, for all models without a place together: some tens of milliseconds with 256
 * accelerators. With a few, all are tried.
 */
const TRIES_MAX = 500;
const NOTHING: RoomMoves = { moves: [], waiting: undefined };

/**
 * Makes room for one model at a time, of the highest rate first. Its place is given to it by the plan after the moves:
 * until then it is loaded nowhere, and everything else is served.
 */
export function makeRoom(draft: PlacementDraft, isUsable: (subCluster: string) => boolean): RoomMoves {
  const homeless = draft.models
    .filter((entry) => !draft.lives(destinationOf(entry)))
    .toSorted((a, b) => b.model.rate - a.model.rate || a.model.number - b.model.number);
  const places = draft.problem.subClusters.filter((one) => draft.isOpen(one) && isUsable(one));
  if (homeless.length === 0 || places.length < 2 || draft.executors.length === 0) return NOTHING;
  let left = TRIES_MAX;
  for (const [i, entry] of homeless.entries()) {
    if (left <= 0) break;
    // One that has room nowhere must not take all tries from those after it.
    const tries: Tries = { left: i === homeless.length - 1 ? left : Math.ceil(left / 2) };
    left -= tries.left;
    const coming = roomAfterMoves(draft, entry, { places, tries });
    if (coming !== undefined) {
      draft.explain(entry.model.name, `waits for room in ${coming}, which models are leaving`);
      return { moves: [], waiting: entry.model.number };
    }
    const room = new RoomSearch(draft, entry, { places, tries }).cheapest();
    if (room !== undefined) return { moves: begin(draft, entry, room), waiting: entry.model.number };
    left += tries.left;
  }
  return NOTHING;
}

/** The sub-cluster that has room for a model once all models that move have arrived. */
function roomAfterMoves(draft: PlacementDraft, { model }: DraftModel, { places, tries }: Search): string | undefined {
  const moving = new Map(draft.models.flatMap((one) => (one.next === undefined ? [] : [[one, one.next] as const])));
  if (moving.size === 0) return undefined;
  tries.left -= moving.size + places.length;
  return afterwards(draft, moving, () => places.find((subCluster) => draft.couldHold({ subCluster, ...model })));
}

/** Looks at the draft as it will be once models have moved. */
function afterwards<Result>(
  draft: PlacementDraft,
  movers: ReadonlyMap<DraftModel, string>,
  look: () => Result,
): Result {
  const before = [...movers.keys()].map((entry) => ({ entry, home: entry.home, next: entry.next }));
  for (const [entry, to] of movers) draft.set(entry, { home: to, next: undefined });
  const result = look();
  for (const { entry, home, next } of before) draft.set(entry, { home, next });
  return result;
}

/** Memory that sub-clusters leave free if the largest accelerators hold them: no more ever fits. */
function freeBytes(draft: PlacementDraft): number {
  const { subClusters } = draft.problem;
  const held = draft.executors
    .map((one) => draft.bytesOf(one))
    .sort((a, b) => b - a)
    .slice(0, subClusters.length);
  const needed = subClusters.reduce((sum, subCluster) => sum + draft.need(subCluster), 0);
  return held.reduce((sum, bytes) => sum + bytes, 0) - needed;
}

/** The search for room for one model. It leaves the draft as it was. */
class RoomSearch {
  readonly #draft: PlacementDraft;
  readonly #entry: DraftModel;
  readonly #places: readonly string[];
  readonly #largestBytes: number;
  readonly #tries: Tries;
  #best: Room | undefined;

  constructor(draft: PlacementDraft, entry: DraftModel, { places, tries }: Search) {
    this.#draft = draft;
    this.#entry = entry;
    this.#places = places;
    this.#tries = tries;
    this.#largestBytes = Math.max(...draft.executors.map((one) => draft.bytesOf(one)));
  }

  /** Where one model that leaves is enough: the smallest; otherwise several of a sub-cluster, the largest first. */
  cheapest(): Room | undefined {
    if (this.#entry.model.memoryBytes > freeBytes(this.#draft)) return undefined;
    const movable = this.#draft.models
      .filter(
        ({ home, next, model }) => this.#places.includes(home ?? "") && next === undefined && model.isPinned !== true,
      )
      .toSorted((a, b) => a.model.memoryBytes - b.model.memoryBytes);
    for (const one of movable) {
      if (this.#tries.left <= 0 || (this.#best !== undefined && this.#best.bytes < one.model.memoryBytes)) break;
      if (!this.#mayMakeRoom(one)) continue;
      for (const { to, lost } of this.#targetsOf(one)) this.#judge(new Map([[one, to]]), lost);
    }
    if (this.#best === undefined)
      for (const place of this.#places) this.#empty(movable.filter(({ home }) => home === place).toReversed());
    return this.#best;
  }

  /** Whether the largest accelerator would hold the model in the place of the one that leaves, or beside others. */
  #mayMakeRoom({ home, model }: DraftModel): boolean {
    const needs = this.#places.map(
      (to) => this.#draft.need(to, this.#entry.model) - (to === home ? model.memoryBytes : 0),
    );
    return Math.min(...needs) <= this.#largestBytes;
  }

  /** Moves models to where they fit, in this order, until there is room. */
  #empty(leaving: readonly DraftModel[]): void {
    const movers = new Map<DraftModel, string>();
    let allLost = 0;
    for (const one of leaving) {
      if (this.#tries.left <= 0) break;
      const [target] = this.#targetsOf(one);
      if (target === undefined) continue;
      this.#draft.set(one, { home: one.home, next: target.to });
      movers.set(one, target.to);
      allLost += target.lost;
      if (this.#judge(movers, allLost)) break;
    }
    for (const one of movers.keys()) this.#draft.set(one, { home: one.home, next: undefined });
  }

  /**
   * Where a model may go: where an accelerator holds it that is there already, first where all do, and where little
   * room is left.
   */
  *#targetsOf({ home, model }: DraftModel): IterableIterator<{ readonly to: string; readonly lost: number }> {
    if (this.#tries.left-- <= 0) return;
    const targets = this.#places
      .filter((to) => to !== home && this.#draft.executorsOf(to).some((one) => this.#draft.holds(one, to, model)))
      .map((to) => ({ to, lost: this.#draft.lostWith(to, model), need: this.#draft.need(to) }))
      .sort((a, b) => a.lost - b.lost || b.need - a.need);
    for (const target of targets) if (this.#could(target.to, model)) yield target;
  }

  /** Whether there is room after these moves; the best of all that make it is kept. */
  #judge(movers: ReadonlyMap<DraftModel, string>, lost: number): boolean {
    const { model } = this.#entry;
    const room = afterwards(this.#draft, movers, () => this.#places.find((to) => this.#could(to, model)));
    if (room === undefined) return false;
    const bytes = [...movers.keys()].reduce((sum, one) => sum + one.model.memoryBytes, 0);
    const best = this.#best;
    if (best === undefined || lost < best.lost || (lost === best.lost && bytes < best.bytes))
      this.#best = { in: room, movers: new Map(movers), lost, bytes };
    return true;
  }

  #could(subCluster: string, model: ModelToPlace): boolean {
    if (this.#draft.need(subCluster, model) > this.#largestBytes) return false;
    return this.#tries.left-- > 0 && this.#draft.couldHold({ subCluster, ...model });
  }
}

function begin(draft: PlacementDraft, { model }: DraftModel, room: Room): ModelMove[] {
  const names = [...room.movers].map(([entry, to]) => `${entry.model.name} has gone to ${to}`).join(" and ");
  draft.explain(model.name, `waits for ${bytesText(model.memoryBytes)} in ${room.in} until ${names}`);
  return [...room.movers].map(([entry, to]) => {
    const { number, name, memoryBytes } = entry.model;
    const from = entry.home!;
    draft.set(entry, { home: from, next: to });
    draft.explain(name, `goes from ${from} to ${to}: that makes room for ${model.name}`);
    return { number, from, to, cost: 2 * memoryBytes, isForced: true };
  });
}
