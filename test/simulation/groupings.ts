/**
 * Grouping by seed: which actors share a process, and which processes a host. Also the faults between processes of one
 * host.
 */
import { Prng } from "@tutti/units";
import type { ProcessPlan } from "../fixtures/actor-cluster/processes.ts";

/** Faults of links between processes of a host, while faults last. Shares of the messages; times in µs. */
export interface LinkFaults {
  readonly late: number;
  readonly lateUsMax: number;
  /** Share of messages at which the other end does not read, and the link takes no more. */
  readonly full: number;
}

export interface Grouping {
  readonly processes: readonly ProcessPlan[];
  readonly links: LinkFaults;
  /** Times when all links of a slot's process break; messages on their way are lost. */
  readonly breaks: readonly { readonly atUs: number; readonly slot: string }[];
}

interface Grouped {
  readonly slots: readonly string[];
  readonly joiners: readonly string[];
  /** Whether every role must survive the end of any one process. */
  readonly quiet: boolean;
  readonly subClusters: number;
  readonly durationUs: number;
}

/** A generator of its own, so that the rest of a seed means the same in every grouping. */
const prngOf = (seed: number): Prng => new Prng(seed * 5_003 + 23);

export function groupingOf(seed: number, grouped: Grouped): Grouping {
  const prng = prngOf(seed);
  const processes = [...dealt(prng, grouped), ...joining(prng, grouped.joiners)];
  const { slots, quiet, durationUs } = grouped;
  const isSlow = !quiet && prng.nextFloat() < 0.5;
  const isFull = !quiet && prng.nextFloat() < 0.2;
  const links = {
    late: isSlow ? 0.2 * prng.nextFloat() : 0,
    lateUsMax: 500 + prng.nextInt(8_000),
    full: isFull ? 0.01 * prng.nextFloat() : 0,
  };
  const count = !quiet && prng.nextFloat() < 0.4 ? 1 + prng.nextInt(4) : 0;
  const breaks = Array.from({ length: count }, () => ({
    atUs: prng.nextInt(durationUs),
    slot: slots[prng.nextInt(slots.length)]!,
  }));
  return { processes, links, breaks };
}

/**
 * Groups actors by chance. Each is on a host of its own, or all on one; or there is a node, two nodes, or any mixture.
 */
function dealt(prng: Prng, grouped: Grouped): ProcessPlan[] {
  const { slots, quiet } = grouped;
  const draw = prng.nextFloat();
  if (draw < 0.2) return apart(slots);
  if (draw < 0.35) return slots.map((slot) => ({ name: slot, host: "host-0", slots: [slot] }));
  if (draw < 0.55 && !quiet) return together(slots, (slot) => (isExecutor(slot) ? slot : "node-0"), "host-0");
  if (draw < 0.75) {
    const isApart = prng.nextFloat() < 0.5;
    const hostOf = (name: string): string => `host-${isApart ? Number(name.at(-1)) % 2 : 0}`;
    return together(slots, (slot) => (isExecutor(slot) ? slot : `node-${sideOf(slot, grouped)}`), hostOf);
  }
  const [processes, hosts] = [2 + prng.nextInt(4), 1 + prng.nextInt(3)];
  const mayShareExecutor = !quiet && prng.nextFloat() < 0.3;
  const where = Array.from({ length: processes }, () => `host-${prng.nextInt(hosts)}`);
  const processOf = (slot: string): string => {
    const index = prng.nextInt(processes);
    if (isExecutor(slot) && !mayShareExecutor) return slot;
    return `process-${quiet ? evenOrOdd(index, sideOf(slot, grouped), processes) : index}`;
  };
  return together(slots, processOf, (name) => where[Number(name.at(-1)) % processes]!);
}

/** Each actor alone on a host of its own. */
export const apart = (slots: readonly string[]): ProcessPlan[] =>
  slots.map((slot) => ({ name: slot, host: slot, slots: [slot] }));

const isExecutor = (slot: string): boolean => slot.startsWith("executor");

/** Side of a slot: standbys are on the other side than the actors that they replace. */
function sideOf(slot: string, { subClusters }: Grouped): number {
  const index = Number(slot.slice(slot.lastIndexOf("-") + 1));
  return Math.floor(slot.startsWith("ranker") ? index / subClusters : index) % 2;
}

const evenOrOdd = (index: number, side: number, count: number): number =>
  (index - (index % 2) + side) % (count - (count % 2));

function together(
  slots: readonly string[],
  processOf: (slot: string) => string,
  hostOf: string | ((process: string) => string),
): ProcessPlan[] {
  const groups = new Map<string, string[]>();
  for (const slot of slots) {
    const name = processOf(slot);
    groups.set(name, [...(groups.get(name) ?? []), slot]);
  }
  return [...groups].map(([name, members]) => ({
    name,
    host: typeof hostOf === "string" ? hostOf : hostOf(name),
    slots: members,
  }));
}

const joining = (prng: Prng, joiners: readonly string[]): ProcessPlan[] =>
  joiners.map((slot) => ({ name: slot, host: `host-${prng.nextInt(2)}`, slots: [slot] }));
