/**
 * Which types of unlike accelerators should run as halves: `divisionOf` for each type, by what all of them carry
 * together (docs/algorithms.md, D9). All accelerators of a type are divided alike.
 */
import { type PooledModel, poolCapacity } from "../pools/pool-capacity.ts";
import { ROOMY, servingTypes } from "../pools/serving-types.ts";
import { type PoolCapacity, typedCapacity } from "../pools/typed-capacity.ts";
import { REUNION_GAIN, divisionOf } from "./division.ts";

type Profile = PooledModel["profile"];

export interface TypedDivisibleModel extends Omit<PooledModel, "profile"> {
  /** By type. */
  readonly profiles: readonly Profile[];
  /** By type, on half of an accelerator, beside the neighbour that slows it most. */
  readonly halves: readonly Profile[];
}

export interface DivisibleType {
  /** Accelerators, undivided. */
  readonly count: number;
  /** Whether they run as halves now. Default: whole */
  readonly isDivided?: boolean;
}

export interface TypedDivision {
  /** By type, whether it should run as halves. */
  readonly divided: readonly boolean[];
  /** With all types whole. */
  readonly whole: PoolCapacity;
  /** As divided; with all types divided where none should be. */
  readonly halves: PoolCapacity;
}

/** Gain for which types are divided, all together. */
const TYPES_GAIN = 1.15;
/**
 * Gain for which one more type is divided beside what all of them together must gain; one that is divided stays so for
 * any.
 */
const FURTHER_GAIN = 1.05;
/**
 * Share of what a model would carry alone on the whole accelerators of a type that it must carry on their halves. Mixes
 * with a model that loses more are better whole whatever the estimate says of them.
 */
const KEPT = 0.8;
/** The same where they are divided already, so that equal loads come to rest. */
const KEPT_DIVIDED = 0.75;

export function divisionOfTypes(
  models: readonly TypedDivisibleModel[],
  types: readonly DivisibleType[],
): TypedDivision {
  const asked = models.filter(({ share }) => share > 0);
  const [only] = types;
  if (types.length === 1) {
    const alike = models.map(({ profiles, halves, ...one }) => ({ ...one, profile: profiles[0]!, half: halves[0]! }));
    const { kind, whole, halves } = divisionOf(alike, only!.count, only!.isDivided === true ? "halves" : "whole");
    return { divided: [kind === "halves"], whole, halves };
  }
  const undivided = types.map(() => false);
  const whole = capacityOf(models, types, undivided);
  const left = new Set(types.keys());
  for (const type of types.keys()) if (!asked.every((model) => isKept(model, type, types))) left.delete(type);
  let [divided, halves] = [undivided, whole];
  // One type after the other: the one whose halves carry most.
  while (left.size > 0) {
    const isDoubtful = (type: number): boolean => asked.some((model) => isTightened(model, type, types, divided));
    // A rate that waiting limits is estimated too low, since accelerators are kept free for the model that would wait.
    const possible = whole.waits === undefined ? [...left] : [...left].filter((type) => !isDoubtful(type));
    if (possible.length === 0) break;
    const steps = possible.map((type) => {
      const next = divided.map((is, other) => is || other === type);
      const capacity = capacityOf(models, types, next);
      const gain = types[type]!.isDivided === true ? 1 : FURTHER_GAIN;
      return { type, next, capacity, worth: capacity.carried / gain };
    });
    const best = steps.reduce((most, one) => (one.worth > most.worth ? one : most));
    if (best.worth <= halves.carried) break;
    [divided, halves] = [best.next, best.capacity];
    left.delete(best.type);
  }
  const gain = types.some(({ isDivided }) => isDivided === true) ? REUNION_GAIN : TYPES_GAIN;
  if (halves.carried < gain * whole.carried) divided = undivided;
  if (divided.includes(true)) return { divided, whole, halves };
  const all = types.map(() => true);
  return { divided, whole, halves: capacityOf(models, types, all) };
}

/**
 * Whether a type that doesn't serve the model would do so as halves, with little room: plans with it leave the others
 * no time to gather batches (serving-types.ts).
 */
function isTightened(
  { slo, profiles: whole, halves }: TypedDivisibleModel,
  type: number,
  types: readonly DivisibleType[],
  divided: readonly boolean[],
): boolean {
  const serves = (isDivided: (other: number) => boolean): boolean => {
    const profiles = types.map((_, other) => (isDivided(other) ? halves : whole)[other]!);
    const counts = types.map(({ count }, other) => (isDivided(other) ? 2 * count : count));
    return servedBy(slo, profiles, counts)[type]!;
  };
  const isTight = halves[type]!.byBatchSize[1]! > ROOMY * slo;
  return isTight && !serves((other) => divided[other]!) && serves((other) => other === type || divided[other]!);
}

function capacityOf(
  models: readonly TypedDivisibleModel[],
  types: readonly DivisibleType[],
  divided: readonly boolean[],
): PoolCapacity {
  const counts = types.map(({ count }, type) => (divided[type] === true ? 2 * count : count));
  const pool = models.map(({ profiles: whole, halves, ...one }) => {
    const profiles = types.map((_, type) => (divided[type] === true ? halves[type]! : whole[type]!));
    const serves = servedBy(one.slo, profiles, counts);
    return { ...one, profiles: profiles.map((profile, type) => (serves[type] === true ? profile : undefined)) };
  });
  return typedCapacity(pool, counts);
}

/** By type, whether it serves a model with these latencies. */
function servedBy(slo: number, profiles: readonly Profile[], counts: readonly number[]): readonly boolean[] {
  return servingTypes(
    profiles.map(({ byBatchSize }, type) => {
      const alone = byBatchSize[1]!;
      return { tightness: slo > 0 ? alone / slo : Infinity, capacity: counts[type]! / alone };
    }),
  );
}

/** Whether a model that the type serves carries about as much alone on its halves. */
function isKept(
  { profiles, halves, ...one }: TypedDivisibleModel,
  type: number,
  types: readonly DivisibleType[],
): boolean {
  const counts = types.map(({ count }) => count);
  if (servedBy(one.slo, profiles, counts)[type] !== true) return true;
  const alone = (profile: Profile, count: number): number => poolCapacity([{ ...one, profile }], count).carried;
  const least = types[type]!.isDivided === true ? KEPT_DIVIDED : KEPT;
  return alone(halves[type]!, 2 * counts[type]!) >= least * alone(profiles[type]!, counts[type]!);
}
