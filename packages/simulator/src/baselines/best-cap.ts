/** The best cap of `capped` for a workload: it is tried on the very arrivals that it is then judged by. */
import type { SimClusterFactory, SimClusterOptions } from "../cluster/simulated-cluster.ts";
import { Judge } from "../results/metrics.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { createWorkload } from "../scenario/workload.ts";
import { type CapOf, capOfPercent, withCaps } from "./capped.ts";

/** Caps that are tried, as shares of the SLO; the many that come to the same sizes once. */
const PERCENTS = Array.from({ length: 46 }, (_, i) => 10 + 2 * i);

/** `capped` with the cap of the least bad worst model and SLO class in this scenario. */
export function cappedAtBest(scenario: Scenario): SimClusterFactory {
  return (options) => withCaps(bestCap(scenario, options))(options);
}

/** Too small a cap overloads, and too large a one is late: the bad rate falls and then rises with the cap. */
function bestCap(scenario: Scenario, options: SimClusterOptions): CapOf {
  const caps = PERCENTS.map(capOfPercent);
  const sizes = caps.map((capOf) => options.models.map(capOf).join());
  const tried = caps.filter((_, i) => sizes[i] !== sizes[i - 1]);
  const known = new Map<number, number>();
  const badWith = (i: number): number => {
    const bad = known.get(i) ?? worstBadRate(scenario, options, withCaps(tried[i]!));
    known.set(i, bad);
    return bad;
  };
  let [low, high] = [0, tried.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const bad = badWith(middle);
    if (bad === 0) return tried[middle]!;
    // Caps far too small are equally bad.
    if (bad < badWith(middle + 1)) high = middle;
    else low = middle + 1;
  }
  return tried[low]!;
}

function worstBadRate(scenario: Scenario, options: SimClusterOptions, create: SimClusterFactory): number {
  const judge = new Judge(scenario);
  const cluster = create({ ...options, listener: judge });
  const workload = createWorkload(scenario);
  for (let request = workload.next(); request !== undefined; request = workload.next()) {
    judge.arrived(request);
    cluster.arrive(request);
  }
  cluster.runUntilIdle();
  return Math.max(0, ...judge.streams().map(({ offered, bad }) => (offered > 0 ? bad / offered : 0)));
}
