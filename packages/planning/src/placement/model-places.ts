/**
 * Assigns models to sub-clusters.
 *
 *   MP1. A served model stays where it is, unless it must go (its leader is gone, or no executor there holds it) or
 *        balance is worth the move (MP4).
 *   MP2. A model is placed where an executor can hold it with all models that are there, or nowhere.
 *   MP3. A move has two steps. It ends when every executor of the target has the model; it is taken back when the
 *        target is gone or takes too long.
 *   MP4. Moves that only balance loads cost no more than is left of the budget. They are made only where the loads
 *        differ by more than a tolerance and the moves make that clearly better, so that nothing moves for ever while
 *        nothing changes.
 *   MP5. Models leave a closing sub-cluster as they leave one without a leader, and are served there until they have
 *        arrived. One that has room nowhere else stays.
 *   MP6. A balancing move must not break a bound that was kept: the rate that a ranker decides for, and what the
 *        accelerators of a sub-cluster carry. A bound that is broken is restored whatever the tolerance, if it can be.
 *   MP7. Where only executors that died could hold a sub-cluster's models, these go where living ones have room, and
 *        the others stay as long as the executors are awaited: out of all sub-clusters they would be loaded later.
 *   MP8. Where a model has room nowhere and would have it if others moved, these move first, as few bytes as may be,
 *        and nothing is balanced meanwhile.
 */
import { balance } from "./model-balance.ts";
import { type DraftModel, type PlacementDraft, destinationOf } from "./placement-draft.ts";
import type { LeftOut, ModelMove, ModelToPlace } from "./placement-problem.ts";
import { makeRoom } from "./room-moves.ts";
import { bytesText, rateText } from "./placement-texts.ts";

export interface ModelPlaces {
  readonly moves: readonly ModelMove[];
  readonly waiting: readonly ModelMove[];
  readonly arrived: readonly number[];
  readonly leftOut: readonly LeftOut[];
}

export function placeModelsOf(draft: PlacementDraft): ModelPlaces {
  const arrived = finishMoves(draft);
  const stranded = takeStranded(draft);
  evict(draft);
  const forced = placeHomeless(draft, stranded);
  putBack(draft, stranded);
  const room = makeRoom(draft, (subCluster) => !stranded.has(subCluster));
  const mayBalance = draft.problem.mayBalance && room.waiting === undefined;
  const { moves, waiting } = mayBalance ? balance(draft) : { moves: [], waiting: [] };
  const leftOut = leftOutOf(draft, room.waiting);
  return { moves: [...forced, ...room.moves, ...moves], waiting, arrived, leftOut };
}

/** Ends or takes back the moves in progress (MP3). */
function finishMoves(draft: PlacementDraft): number[] {
  const arrived: number[] = [];
  for (const entry of draft.models) {
    const { model, home, next } = entry;
    if (next === undefined) continue;
    if (!draft.lives(next)) {
      draft.set(entry, { home, next: undefined });
      draft.explain(model.name, `is taken back from ${next}, where nobody leads any more`);
      continue;
    }
    if (!draft.isOpen(next) && draft.isOpen(home)) {
      draft.set(entry, { home, next: undefined });
      draft.explain(model.name, `is taken back from ${next}, which is not needed`);
      continue;
    }
    if (model.isStuck === true && draft.isOpen(home)) {
      draft.set(entry, { home, next: undefined });
      draft.explain(model.name, `is taken back from ${next}, where it was not loaded in time`);
      continue;
    }
    // An executor without a place serves nothing, wherever it was last.
    const there = draft.executors.filter(({ key, subCluster }) => subCluster === next && draft.places.has(key));
    if (there.length === 0 || !there.every(({ loaded }) => loaded.has(model.number))) continue;
    draft.explain(
      model.name,
      `is served in ${next} now: ${there.length === 1 ? "its executor has" : "all executors there have"} loaded it`,
    );
    draft.set(entry, { home: next, next: undefined });
    arrived.push(model.number);
  }
  return arrived;
}

/** Sub-clusters whose models wait for executors that died, and the models; see MP7. */
type Stranded = ReadonlyMap<string, readonly DraftModel[]>;

/**
 * Takes out the models that only executors which died could hold together, so that they find places elsewhere (MP7).
 */
function takeStranded(draft: PlacementDraft): Stranded {
  const stranded = new Map<string, readonly DraftModel[]>();
  if (draft.executors.length === 0 || draft.couldHold()) return stranded;
  for (const subCluster of draft.problem.subClusters) {
    if (!draft.hasModels(subCluster) || !draft.isAwaited(subCluster)) continue;
    if (draft.executorsOf(subCluster).some((executor) => draft.holds(executor, subCluster))) continue;
    stranded.set(
      subCluster,
      draft.models.filter(({ home }) => home === subCluster),
    );
  }
  for (const entry of draft.models) {
    const [home, next] = [entry.home, entry.next].map((at) => (stranded.has(at ?? "") ? undefined : at));
    if (home !== entry.home || next !== entry.next) draft.set(entry, { home: home ?? next, next: home && next });
  }
  return stranded;
}

/** Models that no living executor can hold stay where theirs may be back soon (MP7). */
function putBack(draft: PlacementDraft, stranded: Stranded): void {
  for (const [home, models] of stranded)
    for (const entry of models) {
      const { name } = entry.model;
      if (entry.home !== undefined) draft.explain(name, `leaves ${home}, whose accelerators are away`);
      else {
        draft.set(entry, { home, next: undefined });
        draft.explain(name, `stays in ${home}, whose accelerators are away: no other can hold it`);
      }
    }
}

/**
 * Takes out models until executors can hold the rest. Models that are moving in give way before those that are there,
 * and models of lower rate before those of higher rate.
 */
function evict(draft: PlacementDraft): void {
  if (draft.executors.length === 0) return;
  for (let misfit = draft.misfit(); misfit !== undefined; misfit = draft.misfit()) {
    const there = draft.models.filter(({ home, next }) => home === misfit || next === misfit);
    const first = there.toSorted(
      (a, b) =>
        Number(b.next === misfit) - Number(a.next === misfit) ||
        a.model.rate - b.model.rate ||
        b.model.memoryBytes - a.model.memoryBytes ||
        b.model.number - a.model.number,
    )[0]!;
    draft.set(first, { home: first.next === misfit ? first.home : undefined, next: undefined });
    draft.explain(first.model.name, `leaves ${misfit}, whose models no accelerator can hold together any more`);
  }
}

/**
 * Places unassigned models (MP2). It tries the highest rates first and the largest models first, and takes the order
 * that leaves fewer out.
 */
function placeHomeless(draft: PlacementDraft, stranded: Stranded): ModelMove[] {
  const homeless = draft.models.filter((entry) => !draft.isOpen(destinationOf(entry)));
  if (homeless.length === 0 || draft.executors.length === 0) return [];
  const size = (a: DraftModel, b: DraftModel): number => b.model.memoryBytes - a.model.memoryBytes;
  const rate = (a: DraftModel, b: DraftModel): number => b.model.rate - a.model.rate;
  const age = (a: DraftModel, b: DraftModel): number => a.model.number - b.model.number;
  const orders = [
    homeless.toSorted((a, b) => rate(a, b) || -size(a, b) || age(a, b)),
    homeless.toSorted((a, b) => size(a, b) || rate(a, b) || age(a, b)),
  ];
  const attempts = orders.map((order) => {
    const placed = new Map<DraftModel, string>();
    const moved = new Map<DraftModel, string | undefined>();
    for (const entry of order) {
      const to = bestPlace(draft, entry, stranded);
      if (to === undefined || to === destinationOf(entry)) continue;
      placed.set(entry, to);
      moved.set(entry, entry.next);
      draft.set(entry, { home: entry.home, next: to });
    }
    for (const [entry, before] of moved) draft.set(entry, { home: entry.home, next: before });
    return placed;
  });
  const best = attempts[1]!.size > attempts[0]!.size ? attempts[1]! : attempts[0]!;
  return homeless.flatMap((entry) => {
    const to = best.get(entry);
    return to === undefined ? [] : settle(draft, entry, to);
  });
}

function settle(draft: PlacementDraft, entry: DraftModel, to: string): ModelMove[] {
  const { model, home } = entry;
  const least = `${to} carries ${rateText(draft.of(to).rateThen)} of ${rateText(draft.rate)} besides`;
  if (home === undefined) {
    draft.set(entry, { home: to, next: undefined });
    draft.explain(model.name, `is placed in ${to}: ${least}, and has room for ${bytesText(model.memoryBytes)}`);
    return [];
  }
  // Without a leader nothing serves it in its old sub-cluster. Still, the target serves it only once it is loaded.
  draft.set(entry, { home, next: to === home ? undefined : to });
  if (to === home) return [];
  const why = draft.lives(home) ? "which is not needed" : "where nobody leads";
  draft.explain(model.name, `goes from ${home}, ${why}, to ${to}: ${least}`);
  return [{ number: model.number, from: home, to, cost: 2 * model.memoryBytes, isForced: true }];
}

/** A place in an open sub-cluster, or where none has room in one that is not to be used. */
function bestPlace(draft: PlacementDraft, entry: DraftModel, stranded: Stranded): string | undefined {
  const { model, home, next } = entry;
  const candidates = draft.problem.subClusters
    .filter((to) => !stranded.has(to))
    .filter((to) => to === home || to === next || draft.couldHold({ subCluster: to, ...model }))
    // One that is served leaves for where it can be loaded: its own accelerators follow it later.
    .filter((to) => to === home || to === next || !draft.lives(home) || isHeldIn(draft, to, model))
    .map((subCluster, order) => {
      const { rateThen, workThen, memory, modelsThen } = draft.of(subCluster);
      const workShare = draft.work > 0 ? workThen / draft.work : draft.rate > 0 ? rateThen / draft.rate : 0;
      const memoryShare = draft.memory > 0 ? memory / draft.memory : 0;
      return {
        subCluster,
        isClosed: !draft.isOpen(subCluster),
        lost: draft.lostWith(subCluster, model),
        isOver: rateThen + model.rate > (draft.problem.rateMax ?? Infinity),
        isEmpty: draft.executorsOf(subCluster).length === 0,
        // The number of models decides where loads and memory are not known yet.
        load: workShare + memoryShare + (0.01 * modelsThen) / draft.models.length,
        order,
      };
    })
    .sort(
      (a, b) =>
        Number(a.isClosed) - Number(b.isClosed) ||
        a.lost - b.lost ||
        Number(a.isOver) - Number(b.isOver) ||
        Number(a.isEmpty) - Number(b.isEmpty) ||
        a.load - b.load ||
        a.order - b.order,
    );
  return candidates[0]?.subCluster;
}

const isHeldIn = (draft: PlacementDraft, subCluster: string, model: ModelToPlace): boolean =>
  draft.executorsOf(subCluster).some((executor) => draft.holds(executor, subCluster, model));

/** @param waiting - a model for which room is being made, as is explained already */
function leftOutOf(draft: PlacementDraft, waiting: number | undefined): LeftOut[] {
  const { subClusters } = draft.problem;
  const { executors } = draft;
  if (executors.length === 0) return [];
  const largestBytes = Math.max(...executors.map(({ memoryBytesMax }) => memoryBytesMax));
  return draft.models
    .filter((entry) => !draft.lives(destinationOf(entry)))
    .map(({ model: { number, name, memoryBytes, dynamicBytes = 0 } }) => {
      const needed = memoryBytes + dynamicBytes;
      const free = executors.map(
        ({ key, memoryBytesMax }) =>
          memoryBytesMax - draft.need(draft.places.get(key) ?? "", { memoryBytes: 0, dynamicBytes }),
      );
      const freeBytes = Math.max(0, ...free);
      const there =
        subClusters.length === 0
          ? "no sub-cluster has a leader"
          : needed > largestBytes
            ? `no accelerator holds more than ${bytesText(largestBytes)}`
            : `of the ${bytesText(largestBytes)} that the largest accelerator holds, ${bytesText(freeBytes)} are free at most`;
      const runs = dynamicBytes > 0 ? ` and ${bytesText(dynamicBytes)} while it runs` : "";
      if (number !== waiting)
        draft.explain(name, `is left out: it needs ${bytesText(memoryBytes)}${runs}, and ${there}`);
      return { number, name, memoryBytes, largestBytes, freeBytes };
    });
}
