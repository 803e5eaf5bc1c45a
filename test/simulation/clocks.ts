/** Clocks of processes: each has an offset from true time; in later seeds it may go to and fro at the largest slew. */
import { type Instant, Prng } from "@tutti/units";
import { LATER_SEEDS } from "./later-seeds.ts";
import type { Plan } from "./plan.ts";

/** Share of the later seeds whose clocks differ at all. */
const SHARE = 0.6;
/** Largest slew of production's clocks (N2 of packages/node). */
const SLEW = 500e-6;

/** A generator of its own, so that offsets are what they are without a drift. */
const drifts = ({ seed, skewUsMax }: Plan): boolean =>
  seed >= LATER_SEEDS && skewUsMax > 0 && new Prng(seed * 3_511 + 61).nextFloat() < SHARE;

/** @returns the clock of a process minus true time, from an offset that is drawn */
export function clockOf(plan: Plan, offsetUs: number): (at: Instant) => number {
  if (!drifts(plan)) return () => offsetUs;
  const most = plan.skewUsMax;
  // A wave that rises and falls between the bounds.
  return (at) => {
    const place = (((at * SLEW + offsetUs + most) % (4 * most)) + 4 * most) % (4 * most);
    return Math.round(place < 2 * most ? place - most : 3 * most - place);
  };
}
