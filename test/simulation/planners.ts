/**
 * Seeds in which production's planner places models and accelerators, moves them while requests come, and parks models
 * that nobody asks for. They last for seconds instead of a fraction of one: a planner hears everybody for 1.5 s before
 * it decides, knows rates after 3 s, and a model is idle after 5 s at least.
 */
import { DEFAULT_SUB_CLUSTER, type ModelSpec } from "@tutti/protocol";
import { type Micros, Prng, micros, millis, seconds } from "@tutti/units";
import { LATER_SEEDS } from "./later-seeds.ts";
import type { Plan, Ungrouped } from "./plan.ts";

/** From a moment after faults have begun on, a model's rate is so many times the usual one. */
interface Phase {
  readonly atUs: number;
  readonly factor: number;
}

export interface Planned {
  readonly slots: readonly string[];
  readonly subClusters: readonly string[];
  /** Sub-clusters that are used whatever they cost. */
  readonly subClustersMin: number;
  readonly epoch: Micros;
  /** Time in which an executor loads a model. */
  readonly loadUs: number;
  /** By the number of the model, from 1 on; undefined: it is never parked. */
  readonly scaleToZero: readonly ModelSpec["scaleToZero"][];
  readonly phases: readonly (readonly Phase[])[];
}

/** Share of the later seeds, of those that are neither calm nor struck. */
const SHARE = 0.3;
const EXECUTORS_LEAST = 2;
/** Share of the requests per second, since they arrive for so much longer: a seed's cost is mostly theirs. */
const RATE = 0.1;
/** The least that a specification may say. */
const IDLE = seconds(5);
/**
 * A model leaves its executors 7 to 9 s after its last request: in between is when a request makes it stay, or return.
 */
const SILENT_US = [4_000_000, 11_000_000] as const;
/** A planner that comes hears everybody first; a sub-cluster whose leader is gone keeps its models for 3 s. */
const REPLACED = seconds(1.5 + 3);

/** A generator of its own, so that the rest of a seed means what it means without a planner. */
export function withPlanner(plan: Ungrouped): Ungrouped {
  const prng = new Prng(plan.seed * 7_001 + 43);
  if (plan.seed < LATER_SEEDS || plan.calm || plan.struck || prng.nextFloat() >= SHARE) return plan;
  const chance = (share: number): boolean => prng.nextFloat() < share;
  const us = (low: number, high: number): number => Math.round(low + prng.nextFloat() * (high - low));
  const many = <Item>(length: number, make: () => Item): Item[] => Array.from({ length }, make);
  const { placings, ...rest } = plan;
  const isDivided = placings !== undefined || chance(0.6);
  const executors = Math.max(EXECUTORS_LEAST, plan.executors);
  const parks = chance(0.5);
  const scaleToZero = plan.models.map(() =>
    parks && chance(0.7) ? { idle: IDLE, coldStart: micros(us(1_000_000, 3_000_000)) } : undefined,
  );
  const durationUs = parks ? us(12_000_000, 20_000_000) : us(5_000_000, 8_000_000);
  const slots = chance(0.4) ? ["planner-0", "planner-1"] : ["planner-0"];
  const planned = {
    slots,
    subClusters: isDivided ? [DEFAULT_SUB_CLUSTER, "s1"] : [DEFAULT_SUB_CLUSTER],
    subClustersMin: chance(0.8) ? 2 : 1,
    epoch: micros(us(1_000_000, 3_000_000)),
    loadUs: us(1_000, 150_000),
    scaleToZero,
    phases: scaleToZero.map((parking) => phasesOf(prng, durationUs, parking !== undefined)),
  };
  /** Half of the additional faults come while rates change, and parked models are asked for. */
  const changes = planned.phases.flat().map(({ atUs }) => atUs);
  const when = (): number => {
    const atUs = chance(0.5)
      ? prng.nextInt(durationUs)
      : changes[prng.nextInt(changes.length)]! + us(-300_000, 700_000);
    return Math.min(Math.max(0, atUs), durationUs - 1);
  };
  const slot = (role: string, count: number): string => `${role}-${prng.nextInt(count)}`;
  const makers: (() => Plan["actions"][number]["action"])[] = [
    () => ({ kind: "kill", slot: slot("planner", slots.length), backAfterUs: us(10_000, 3_000_000) }),
    () => ({ kind: "drain", slot: slot("planner", slots.length), backAfterUs: us(1_000, 500_000) }),
    () => ({ kind: "pause", slot: slot("planner", slots.length), forUs: us(50_000, PLANNED_PAUSE_MAX) }),
    () => ({ kind: "cut", slots: ["planner-0"], hearing: chance(0.3), forUs: us(50_000, 2_000_000) }),
    () => ({ kind: "kill", slot: slot("executor", executors), backAfterUs: us(50_000, 4_000_000) }),
    () => ({ kind: "drain", slot: slot("executor", executors), backAfterUs: us(1_000, 2_000_000) }),
    () => ({ kind: "store-out", forUs: us(100_000, 2_000_000) }),
  ];
  const chosen = makers.filter(() => chance(0.4));
  const more = many(chosen.length === 0 ? 0 : prng.nextInt(6), () => ({
    atUs: when(),
    action: chosen[prng.nextInt(chosen.length)]!(),
  }));
  const stretch = durationUs / plan.durationUs;
  return {
    ...rest,
    ...{ planned, durationUs, executors },
    rankers: plan.rankers * (isDivided && placings === undefined ? 2 : 1),
    models: plan.models.map((model) => ({ ...model, ratePerSecond: model.ratePerSecond * RATE })),
    // Nobody else writes placements (PN1).
    actions: [
      ...plan.actions
        .filter(({ action }) => action.kind !== "place")
        .map(({ atUs, action }) => ({ atUs: Math.round(atUs * stretch), action })),
      ...more,
    ],
  };
}

/** Rates that leave their bands; a model that may be parked is asked for now and then. */
function phasesOf(prng: Prng, durationUs: number, parks: boolean): Phase[] {
  const phases: Phase[] = [];
  let atUs = 0;
  for (let isSilent = prng.nextFloat() < 0.5; atUs < durationUs; isSilent = !isSilent) {
    const factor = !parks ? [0, 0.3, 1, 3][prng.nextInt(4)]! : isSilent ? 0 : 1;
    phases.push({ atUs, factor });
    const [leastUs, mostUs] = !parks ? [200_000, 2_500_000] : isSilent ? SILENT_US : [50_000, 800_000];
    atUs += Math.round(leastUs + (mostUs - leastUs) * Math.sqrt(prng.nextFloat()));
  }
  return phases;
}

/** How many times as often as usual a model is asked for at a moment, and from when on that may change. */
export function paceOf(
  { planned }: Pick<Plan, "planned">,
  model: number,
  atUs: number,
): { factor: number; untilUs: number } {
  const phases = planned?.phases[model] ?? [];
  const factor = phases.findLast((phase) => phase.atUs <= atUs)?.factor ?? 1;
  return { factor, untilUs: phases.find((phase) => phase.atUs > atUs)?.atUs ?? Infinity };
}

/** Longest time for which a process is stopped, in seeds with a planner. */
export const PLANNED_PAUSE_MAX = seconds(3);

/** Time that a planner adds to what it takes until a model is served again. */
export const plannedBound = ({ planned }: Pick<Plan, "planned">): Micros =>
  planned === undefined ? millis(0) : micros(REPLACED + 2 * planned.epoch + coldStartMax({ planned }));

/** Longest time that a request has beyond its SLO. */
export const coldStartMax = ({ planned }: Pick<Plan, "planned">): Micros =>
  micros(Math.max(0, ...(planned?.scaleToZero ?? []).map((parking) => parking?.coldStart ?? 0)));
