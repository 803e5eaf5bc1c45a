/**
 * The distribution of a model's requests over its versions. It is one value a model in the bucket of plans, changed
 * only by compare-and-set.
 *
 *   RO1. A request's slot is a hash of the model's name and the request's id, so the same id meets the same version as
 *        long as the shares stay.
 *   RO2. Changing one version's share moves requests only between that version and the default. Growing it moves them
 *        only towards that version.
 *   RO3. Slots that no slice covers belong to the default. So does the share of a version that can't be served now.
 *   RO4. States are never changed back, only followed by others. The newest is in force; those before it record who did
 *        what.
 */
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";
import { isVersion } from "./versions.ts";

/** Number of slots into which requests are hashed: shares are multiples of 0.01 %. */
export const ROUTE_SLOTS = 10_000;
/** Most slices of all versions other than the default together. */
export const ROUTE_SLICES_MAX = 64;
/** Most states that are kept; beyond, the oldest is dropped. */
export const ROUTE_STATES_MAX = 16;

const version = schema.also(schema.text(), isVersion);
const text = schema.text(1_024);
const slot = schema.whole(0, ROUTE_SLOTS);

/** A range of slots: `from` ≤ slot < `to`. */
const RouteSlice = schema.also(schema.record({ version, from: slot, to: slot }), ({ from, to }) => from < to);
export type RouteSlice = Static<typeof RouteSlice>;

/** A version that also runs copies of requests, where an accelerator would be idle. Nobody is sent its results. */
const RouteShadow = schema.record({
  version,
  /** Largest share of the requests to the other versions that is copied: 0 < percent ≤ 100. */
  percent: schema.between(0.01, 100),
  /** Absolute and relative difference that counts as equal; absent: by data type. */
  tolerance: schema.optional(schema.between(0, Number.MAX_VALUE)),
});
export type RouteShadow = Static<typeof RouteShadow>;

/** A share that changes by itself, step by step. */
const RouteRamp = schema.also(
  schema.record({
    version,
    startedAt: schema.moment,
    over: schema.time,
    /** Shares, percent; the last is the goal. */
    steps: schema.list(schema.between(0, 100), 64),
    /** Index in `steps` of the one in force. */
    step: schema.count,
    steppedAt: schema.moment,
    /** Largest fraction of the version's requests that may be refused or late; beyond it, everything goes back. */
    badMax: schema.between(0, 1),
    /** Largest fraction of the compared answers that may differ, if the version is also the shadow; 1: any. */
    mismatchMax: schema.between(0, 1),
  }),
  ({ step, steps }) => step < steps.length,
);
export type RouteRamp = Static<typeof RouteRamp>;

const RouteState = schema.also(
  schema.record({
    at: schema.moment,
    /** Author of the state: `operator`, or the actor that changed it. */
    by: text,
    why: text,
    default: version,
    /** Slices by slot, disjoint; the default has none. */
    slices: schema.list(RouteSlice, ROUTE_SLICES_MAX),
    shadow: schema.optional(RouteShadow),
    ramp: schema.optional(RouteRamp),
  }),
  ({ default: otherwise, slices }) =>
    slices.every((slice, i) => slice.version !== otherwise && (i === 0 || slice.from >= slices[i - 1]!.to)),
);
export type RouteState = Static<typeof RouteState>;

/** Validates what readers rely on (T8). */
export const isRoute = stored(
  "route",
  1,
  schema.record({
    name: schema.name,
    /** States, the newest last. */
    states: schema.also(schema.list(RouteState, ROUTE_STATES_MAX), (states) => states.length > 0),
  }),
);
export type Route = Static<typeof isRoute>;

export const routeKeys = {
  prefix: "route.",
  /** Key in the bucket of plans. */
  model: (name: string): string => `route.${name}`,
} as const;

export const stateOf = (route: Route): RouteState => route.states.at(-1)!;

/**
 * Slot of a request (RO1): FNV-1a over the code units, then MurmurHash3's finaliser. FNV-1a alone puts ids that differ
 * in their last digit side by side.
 */
export function slotOf(name: string, id: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ 0xff, 0x01000193);
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return Math.floor((((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32) * ROUTE_SLOTS);
}

export function versionAt({ default: otherwise, slices }: RouteState, slot: number): string {
  for (const { version, from, to } of slices) if (slot >= from && slot < to) return version;
  return otherwise;
}

/** Share of a version, percent; all versions of a state add up to 100. */
export function percentOf({ default: otherwise, slices }: RouteState, version: string): number {
  const own = slotsOf(slices, version);
  const left = ROUTE_SLOTS - slices.reduce((sum, { from, to }) => sum + to - from, 0);
  return ((own + (version === otherwise ? left : 0)) * 100) / ROUTE_SLOTS;
}

/** Every version that has a share, the default first. */
export const versionsOf = ({ default: otherwise, slices }: RouteState): string[] => [
  ...new Set([otherwise, ...slices.map(({ version }) => version)]),
];

/**
 * Changes a version's share (RO2). It grows into the lowest slots of the default, and gives back its own highest slots.
 *
 * @returns undefined if the default's share is too small for this, or if it would take more than ROUTE_SLICES_MAX
 *   slices
 */
export function withPercent(
  slices: readonly RouteSlice[],
  version: string,
  percent: number,
): readonly RouteSlice[] | undefined {
  const wanted = Math.round((percent * ROUTE_SLOTS) / 100);
  let more = wanted - slotsOf(slices, version);
  const changed: RouteSlice[] = [];
  if (more >= 0) {
    changed.push(...slices);
    for (const { from, to } of gapsOf(slices)) {
      const taken = Math.min(more, to - from);
      if (taken > 0) changed.push({ version, from, to: from + taken });
      more -= taken;
    }
    if (more > 0) return undefined;
  } else
    for (const slice of slices.toReversed()) {
      const given = slice.version === version ? Math.min(-more, slice.to - slice.from) : 0;
      more += given;
      if (slice.to - given > slice.from) changed.push({ ...slice, to: slice.to - given });
    }
  const merged = mergedSlices(changed);
  return merged.length <= ROUTE_SLICES_MAX ? merged : undefined;
}

/** Makes another version the default: it gets its predecessor's share and keeps its own. */
export const withDefault = (state: RouteState, version: string): Pick<RouteState, "default" | "slices"> => ({
  default: version,
  slices: state.slices.filter((slice) => slice.version !== version),
});

/** Appends a state (RO4). */
export const withState = ({ name, states }: Route, state: RouteState): Route => ({
  name,
  states: [...states, state].slice(-ROUTE_STATES_MAX),
});

/** The state before the last change, for a rollback; undefined: there is none. */
export function stateBefore({ states }: Route): Pick<RouteState, "default" | "slices" | "shadow"> | undefined {
  const before = states.at(-2);
  if (before === undefined) return undefined;
  const { default: otherwise, slices, shadow } = before;
  return { default: otherwise, slices, ...(shadow !== undefined && { shadow }) };
}

const slotsOf = (slices: readonly RouteSlice[], version: string): number =>
  slices.reduce((sum, slice) => sum + (slice.version === version ? slice.to - slice.from : 0), 0);

function gapsOf(slices: readonly RouteSlice[]): { from: number; to: number }[] {
  const gaps: { from: number; to: number }[] = [];
  let at = 0;
  for (const { from, to } of [...slices, { from: ROUTE_SLOTS, to: ROUTE_SLOTS }]) {
    if (from > at) gaps.push({ from: at, to: from });
    at = to;
  }
  return gaps;
}

function mergedSlices(slices: readonly RouteSlice[]): RouteSlice[] {
  const merged: RouteSlice[] = [];
  for (const slice of slices.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && last.version === slice.version && last.to === slice.from)
      merged[merged.length - 1] = { ...last, to: slice.to };
    else merged.push(slice);
  }
  return merged;
}
