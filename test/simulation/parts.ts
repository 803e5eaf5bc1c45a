/**
 * Seeds in which an executor is replaced by two halves of its accelerators, and by a whole one again, while requests
 * come: as `PartSwitch` of packages/host does it.
 */
import { Prng } from "@tutti/units";
import type { Cluster } from "./cluster.ts";
import { LATER_SEEDS } from "./later-seeds.ts";
import type { Plan } from "./plan.ts";

/** Share of the later seeds that can have it. */
const SHARE = 0.4;
const WHOLE = "executor-0";
/** Executors are at most three and one that joins. */
const HALVES = ["executor-4", "executor-5"] as const;
/** How long a half takes, in runs of a whole one. */
const FACTOR = { least: 1.2, most: 2 } as const;

/** A generator of its own, so that the rest of a seed means what it means without halves. */
export function withParts(plan: Plan): Plan {
  const { seed, calm, struck, placings, hasFamily, slow, grouping, durationUs } = plan;
  const own = grouping.processes.find(({ slots }) => slots.length === 1 && slots[0] === WHOLE);
  // Halves and the whole one share memory that each would take for its own. A placement by hand has no place for
  // halves; a family's and another type's latencies are told in their own ways.
  const isFit =
    placings === undefined &&
    plan.memory === undefined &&
    hasFamily !== true &&
    slow === undefined &&
    own !== undefined;
  const prng = new Prng(seed * 5_501 + 59);
  if (seed < LATER_SEEDS || calm || struck || !isFit || prng.nextFloat() >= SHARE) return plan;
  const processes = HALVES.map((name) => ({ name, host: own.host, slots: [name] }));
  const divides = Array.from({ length: 1 + prng.nextInt(3) }, () => ({
    atUs: prng.nextInt(durationUs),
    action: { kind: "divide" } as const,
  }));
  const strikes = [WHOLE, ...HALVES].flatMap((slot) =>
    prng.nextFloat() < 0.3
      ? { atUs: prng.nextInt(durationUs), action: { kind: "kill", slot, backAfterUs: 20_000 } as const }
      : [],
  );
  const factor = FACTOR.least + (FACTOR.most - FACTOR.least) * prng.nextFloat();
  return {
    ...plan,
    hasParts: true,
    joiners: [...plan.joiners, ...HALVES],
    slow: { factor, executors: [false, false, false, false, true, true] },
    grouping: { ...grouping, processes: [...grouping.processes, ...processes] },
    actions: [...plan.actions, ...divides, ...strikes],
  };
}

/** An executor is held for so long at most until what its models take is known: packages/executor, StandbyGate. */
export const HELD_US_MAX = 10_000_000;

/** The accelerators of one executor, which it drives or its two halves do. */
export class Parts {
  readonly #cluster: Cluster;
  readonly #retire: (slot: string) => void;
  /** Slots that take the others' place: held until those have ended. */
  readonly #held = new Map<string, (() => void) | undefined>();
  /** Slots that nobody starts. */
  readonly #away = new Set<string>(HALVES);
  #loading: Set<string> | undefined;
  #isEnding = false;
  #isWhole = true;

  constructor(cluster: Cluster, retire: (slot: string) => void) {
    this.#cluster = cluster;
    this.#retire = retire;
  }

  isAway(slot: string): boolean {
    return this.#away.has(slot);
  }
  isHeld(slot: string): boolean {
    return this.#held.has(slot);
  }
  get isUnderWay(): boolean {
    return this.#loading !== undefined || this.#isEnding;
  }

  /** Begins to replace whoever drives the accelerators. */
  divide(): void {
    if (this.isUnderWay) return;
    const next = this.#isWhole ? HALVES : [WHOLE];
    this.#loading = new Set(next);
    for (const slot of next) {
      this.#held.set(slot, undefined);
      this.#away.delete(slot);
      this.#cluster.start(slot);
    }
  }

  /** An executor starts. @returns what it calls with the way to release it; undefined: it is not held */
  heldBy(slot: string): ((release: () => void) => void) | undefined {
    return this.#held.has(slot) ? (release) => this.#held.set(slot, release) : undefined;
  }

  /** An executor has loaded all, and plans know what its models take. */
  ready(slot: string): void {
    if (this.#loading?.delete(slot) !== true || this.#loading.size > 0) return;
    this.#loading = undefined;
    this.#isEnding = true;
    const before = this.#isWhole ? [WHOLE] : HALVES;
    for (const one of before) {
      this.#away.add(one);
      this.#retire(one);
    }
    this.#lookAt(before);
  }

  /** PS2: releases the new ones once the old ones have ended. */
  #lookAt(before: readonly string[]): void {
    if (before.some((slot) => this.#cluster.running.has(slot)))
      return this.#cluster.later(1_000, () => this.#lookAt(before));
    this.#isEnding = false;
    this.#isWhole = !this.#isWhole;
    const releases = [...this.#held.values()];
    this.#held.clear();
    for (const release of releases) release?.();
  }

  /** PS1: where a new one ends before it is ready, all new ones do. */
  ended(slot: string): void {
    if (this.#loading === undefined || !this.#held.has(slot)) return;
    const next = [...this.#held.keys()];
    this.#loading = undefined;
    this.#held.clear();
    for (const one of next) {
      this.#away.add(one);
      this.#cluster.kill(one);
    }
  }
}
