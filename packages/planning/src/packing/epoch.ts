/**
 * The next epoch's plan from this one's: as few loads and unloads as the new rates allow (Nexus §6.1;
 * docs/algorithms.md, C4).
 *
 *   EPOCH-1. Equal rates move nothing; a stream whose rate changed by less than 3 % on nodes that can bear it stays.
 */
import { type Obstacle, type PackedNode, type Share, dedicated, fittedOr } from "./node.ts";
import { type PackingOptions, type PackingPlan, bestFit, place } from "./pack.ts";
import type { OnPackingStep, PackingStep } from "./steps.ts";
import { type Stream, residual, saturated } from "./stream.ts";

export interface Move {
  readonly stream: number;
  readonly node: number;
}
export interface EpochPlan extends PackingPlan {
  readonly loads: readonly Move[];
  readonly unloads: readonly Move[];
}

const STILL = 0.03;

/** Shares of a node while they change; it may be fitted no more. */
interface Draft {
  readonly id: number;
  shares: Share[];
  occupancy: number;
}

/** @param streams - with their new rates; one that is missing has gone */
export function nextEpoch(before: PackingPlan, streams: readonly Stream[], options: PackingOptions = {}): EpochPlan {
  const byId = new Map(streams.map((stream) => [stream.id, stream]));
  const drafts = before.nodes.map(({ id, items, occupancy }): Draft => {
    const shares = items.flatMap(({ stream, rate }): Share[] => {
      const now = byId.get(stream.id);
      return now === undefined ? [] : [{ stream: now, rate }];
    });
    return { id, shares, occupancy };
  });
  const unplaced: Share[] = [];
  for (const stream of streams) {
    if (staysAsItIs(drafts, stream, options)) continue;
    takeSurplus(drafts, stream, options.onStep);
    const rest = raise(drafts, stream, options.onStep);
    if (rest > 0) unplaced.push({ stream, rate: rest });
  }
  const nodes = drafts.flatMap((draft) => relieved(draft, unplaced, options) ?? []);
  consolidate(nodes, options);
  const nextId = before.nodes.reduce((most, { id }) => Math.max(most, id), -1) + 1;
  const placed = place(unplaced, nodes, options, nextId);
  // Once more: what was placed changed the nodes, and what can be released now would be released, and moved, by an
  // epoch of equal rates (EPOCH-1).
  const settled = [...placed.nodes];
  consolidate(settled, options);
  const plan = { ...placed, nodes: settled };
  return { ...plan, ...movesBetween(before, plan) };
}

/** EPOCH-1. Little changes are taken where the streams are, if their nodes still fit. */
function staysAsItIs(drafts: readonly Draft[], stream: Stream, { memory = Infinity, onStep }: PackingOptions): boolean {
  const placed = placedRate(drafts, stream);
  if (placed === 0 || Math.abs(stream.rate - placed) >= STILL * placed) return false;
  const factor = stream.rate / placed;
  const own = drafts.filter(({ shares }) => shares.some((share) => share.stream.id === stream.id));
  const scaled = own.map(({ shares }) =>
    shares.map((share) => (share.stream.id === stream.id ? { ...share, rate: share.rate * factor } : share)),
  );
  if (!own.every(({ id }, i) => typeof nodeOr(id, scaled[i]!, memory) !== "string")) return false;
  for (const [i, draft] of own.entries()) draft.shares = scaled[i]!;
  onStep?.({ kind: "kept", stream, rate: stream.rate, before: placed });
  return true;
}

/** Step 1: from the least occupied nodes first. */
function takeSurplus(drafts: readonly Draft[], stream: Stream, onStep?: OnPackingStep): void {
  let surplus = placedRate(drafts, stream) - stream.rate;
  const own = drafts.filter(({ shares }) => shares.some((share) => share.stream.id === stream.id));
  for (const draft of own.sort((a, b) => a.occupancy - b.occupancy || a.id - b.id)) {
    if (surplus <= 1e-12 * stream.rate) return;
    draft.shares = draft.shares.flatMap((share) => {
      if (share.stream.id !== stream.id) return [share];
      const taken = Math.min(surplus, share.rate);
      surplus -= taken;
      onStep?.({ kind: "lowered", stream, rate: share.rate - taken, before: share.rate, node: draft.id });
      return share.rate - taken > 1e-9 * Math.max(share.rate, stream.rate)
        ? [{ ...share, rate: share.rate - taken }]
        : [];
    });
  }
}

/** Step 2: up to what each place could carry alone. @returns what is left */
function raise(drafts: readonly Draft[], stream: Stream, onStep?: OnPackingStep): number {
  let rest = stream.rate - placedRate(drafts, stream);
  const most = saturated(stream)?.rate ?? 0;
  for (const draft of drafts) {
    draft.shares = draft.shares.map((share) => {
      if (share.stream.id !== stream.id || rest <= 0) return share;
      const added = Math.min(rest, Math.max(0, most - share.rate));
      rest -= added;
      const rate = share.rate + added;
      if (added > 0) onStep?.({ kind: "raised", stream, rate, before: share.rate, node: draft.id });
      return { ...share, rate };
    });
  }
  return rest > 1e-9 * stream.rate ? rest : 0;
}

/** Step 3: what is too much for a node leaves it, the least part of it first. */
function relieved(
  draft: Draft,
  unplaced: Share[],
  { memory = Infinity, onStep }: PackingOptions,
): PackedNode | undefined {
  const shares = [...draft.shares].sort((a, b) => aloneOccupancy(a) - aloneOccupancy(b) || a.stream.id - b.stream.id);
  while (shares.length > 0) {
    const inOrder = draft.shares.filter((share) => shares.includes(share));
    const node = nodeOr(draft.id, inOrder, memory);
    if (typeof node !== "string") return node;
    const { stream, rate } = shares.shift()!;
    unplaced.push({ stream, rate });
    onStep?.({ kind: "evicted", stream, rate, node: draft.id, why: node });
  }
  return undefined;
}

/** Above 1 where it needs a node of its own. */
const aloneOccupancy = ({ stream, rate }: Share): number => residual(stream, rate)?.occupancy ?? 1 + rate;

/** Step 4: the emptiest node's items elsewhere, again and again, until that fails. */
function consolidate(nodes: PackedNode[], { memory = Infinity, onStep }: PackingOptions): void {
  for (;;) {
    const shared = nodes.filter(({ isDedicated }) => !isDedicated);
    const emptiest = shared.toSorted((a, b) => a.occupancy - b.occupancy || b.id - a.id)[0];
    if (emptiest === undefined) return;
    const trial = nodes.filter((node) => node !== emptiest);
    const steps: PackingStep[] = [];
    const noted = onStep === undefined ? { memory } : { memory, onStep: (step: PackingStep) => void steps.push(step) };
    if (!emptiest.items.every((item) => bestFit(trial, item, noted))) return;
    nodes.splice(0, nodes.length, ...trial);
    onStep?.({ kind: "released", node: emptiest.id });
    for (const step of steps) onStep?.(step);
  }
}

function nodeOr(id: number, shares: readonly Share[], memory: number): PackedNode | Obstacle {
  const shared = fittedOr(id, shares, memory);
  if (typeof shared !== "string" || shares.length !== 1) return shared;
  return dedicated(id, shares[0]!) ?? shared;
}

const placedRate = (drafts: readonly Draft[], stream: Stream): number =>
  drafts.reduce(
    (sum, { shares }) => sum + shares.reduce((own, share) => own + (share.stream.id === stream.id ? share.rate : 0), 0),
    0,
  );

function movesBetween(before: PackingPlan, after: PackingPlan): Pick<EpochPlan, "loads" | "unloads"> {
  const placesOf = ({ nodes }: PackingPlan): Map<string, Move> =>
    new Map(
      nodes.flatMap(({ id, items }) =>
        items.map(({ stream }) => [`${id}/${stream.id}`, { stream: stream.id, node: id }]),
      ),
    );
  const [old, now] = [placesOf(before), placesOf(after)];
  return {
    loads: [...now].flatMap(([key, move]) => (old.has(key) ? [] : [move])),
    unloads: [...old].flatMap(([key, move]) => (now.has(key) ? [] : [move])),
  };
}
