/** Judges what one application cost another while it flooded the system. */
import { MEMORY_BYTES } from "../attack.ts";
import { megabytes } from "../witness.ts";
import type { FloodReport } from "./flood-process.ts";
import type { Kind } from "./kinds.ts";
import { type Asked, DOORS, type Door, NEIGHBOUR_SLO_MS, isInTime } from "./neighbour.ts";
import { TURN_MS, type Turns } from "./turns.ts";

/** Memory in bytes, and open files. */
export interface Holdings {
  /** The process that schedules. */
  readonly node: number;
  /** Those that it started: they decode pictures. */
  readonly children: number;
  /** nats-server. */
  readonly server: number;
  readonly descriptors: number;
}

export interface Rest {
  readonly asked: readonly Asked[];
  readonly held: Holdings;
}

export interface KindResult {
  readonly name: string;
  readonly what: string;
  /** A sentence for each thing that the kind breaks; empty: it held. */
  readonly broken: readonly string[];
  readonly sentPerSecond: number;
  readonly outcomes: FloodReport;
  /** Share of the other application's requests in time, by door. */
  readonly inTime: Readonly<Record<Door, number>>;
  readonly p50Ms: number;
  readonly restP50Ms: number;
  readonly turns: Turns;
  /** Most beyond what was held at rest. */
  readonly grown: Holdings;
  /** The part of it that is left at the end. */
  readonly left: Holdings;
  /** How long it took until everything was given back, or how long that was waited for. */
  readonly backMs: number;
}

const IN_TIME_SHARE = 0.99;
/** At most one of 100 moments at which something may come lies in a turn of more than TURN_MS. */
const OVER_SHARE = 0.01;
/** Five threads at most, each with a process that keeps 256 MB at most (RESIDENT_BYTES_MAX). */
const CHILDREN_BYTES = 5 * 268_435_456;
/** NATS_PENDING_BYTES_MAX, for a connection that doesn't read, and half as much again. */
const SERVER_BYTES = 402_653_184;
/**
 * The most that may be left: heaps and allocators keep some memory, to use it again. `npm run soak` shows that it
 * doesn't add up.
 */
const LEFT: Holdings = { node: 201_326_592, children: CHILDREN_BYTES, server: 134_217_728, descriptors: 16 };
/** Requests after the flood whose median must be as at rest. */
const LAST = 10;

const medianOf = (asked: readonly Asked[]): number => {
  const all = asked.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return all[Math.floor(all.length / 2)] ?? Infinity;
};

/** Whether the other application is served as fast as at rest, and memory and descriptors are given back. */
export function isBack(held: Holdings, asked: readonly Asked[], rest: Rest, sinceMs: number): boolean {
  const last = asked.filter(({ atMs }) => atMs > sinceMs).slice(-LAST);
  return last.length === LAST && isFast(last, rest) && unreturned(differenceOf(held, rest.held)).length === 0;
}

const isFast = (last: readonly Asked[], rest: Rest): boolean =>
  last.every(isInTime) && medianOf(last) <= 2 * medianOf(rest.asked) + 5;

const KEYS = ["node", "children", "server", "descriptors"] as const satisfies readonly (keyof Holdings)[];
const NAMES: Holdings extends Readonly<Record<infer K, number>> ? Readonly<Record<K, string>> : never = {
  ...{ node: "the process that schedules", children: "processes that decode", server: "nats-server" },
  descriptors: "descriptors",
};

function differenceOf(held: Holdings, rest: Holdings): Holdings {
  const [node, children, server, descriptors] = KEYS.map((key) => Math.max(0, held[key] - rest[key]));
  return { node: node!, children: children!, server: server!, descriptors: descriptors! };
}

const unreturned = (left: Holdings): (keyof Holdings)[] => KEYS.filter((key) => left[key] > LEFT[key]);
const amount = (key: keyof Holdings, value: number): string => (key === "descriptors" ? `${value}` : megabytes(value));

export interface Seen {
  readonly kind: Kind;
  readonly sent: FloodReport;
  readonly seconds: number;
  readonly asked: readonly Asked[];
  readonly turns: Turns;
  readonly rest: Rest;
  readonly peak: Holdings;
  /** At the end. */
  readonly held: Holdings;
  readonly backMs: number;
  readonly isBack: boolean;
}

export function resultOf(seen: Seen): KindResult {
  const { kind, sent, seconds, asked, turns, rest, peak, held, backMs } = seen;
  const [grown, left] = [differenceOf(peak, rest.held), differenceOf(held, rest.held)];
  const shares = DOORS.map((door): [Door, number] => {
    const own = asked.filter((one) => one.door === door);
    return [door, own.length === 0 ? 0 : own.filter(isInTime).length / own.length];
  });
  const late = shares.flatMap(([door, share]) => (share >= IN_TIME_SHARE ? [] : [lateText(door, share, asked)]));
  const bounds: Partial<Holdings> = { node: MEMORY_BYTES, children: CHILDREN_BYTES, server: SERVER_BYTES };
  const memory = KEYS.filter((key) => grown[key] > (bounds[key] ?? Infinity)).map(
    (key) => `${NAMES[key]} grew by ${amount(key, grown[key])}, not ${amount(key, bounds[key]!)}`,
  );
  const stuck = unreturned(left).map((key) => `${NAMES[key]} kept ${amount(key, left[key])}`);
  return {
    name: kind.name,
    what: kind.what,
    broken: [
      ...late,
      ...(turns.turns === 0 ? ["no turn was measured"] : []),
      ...(turns.overShare > OVER_SHARE
        ? [
            `turns over ${TURN_MS} ms took ${percent(turns.overShare)} of the time, up to ${turns.ownMsMax.toFixed(1)} ms`,
          ]
        : []),
      ...memory,
      ...(seen.isBack ? [] : stuck.length > 0 ? stuck : ["the other application was not served as at rest after 10 s"]),
    ],
    sentPerSecond: Object.values(sent).reduce((sum, count) => sum + count, 0) / seconds,
    outcomes: sent,
    inTime: Object.fromEntries(shares) as Record<Door, number>,
    ...{ p50Ms: medianOf(asked), restP50Ms: medianOf(rest.asked), turns, grown, left, backMs },
  };
}

function lateText(door: Door, share: number, asked: readonly Asked[]): string {
  const worst = asked.filter((one) => one.door === door && !isInTime(one)).toSorted((a, b) => b.ms - a.ms)[0];
  const example = worst === undefined ? "" : `: ${worst.problem ?? ""} after ${Math.round(worst.ms)} ms`;
  return `${percent(share)} over ${door} in time within ${NEIGHBOUR_SLO_MS} ms${example}`;
}

export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
