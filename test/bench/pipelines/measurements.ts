/** Goodput in the simulator, by scenario and policy. */
import { join } from "node:path";
import { ScenarioFile, choicesOf } from "@tutti/sim-report/scenarios";
import { LatencyTable } from "@tutti/profile";
import { type Scenario, goodput, simulateDetailed } from "@tutti/simulator";
import { type Micros, millis, seconds } from "@tutti/units";

const SCENARIOS = join(import.meta.dirname, "../scenarios");
export const POLICIES = ["nexus", "default"] as const;
type Policy = (typeof POLICIES)[number];

/** Requests per second to the pipeline, at most 1 % of them bad. */
export interface SplitRow {
  readonly workload: string;
  readonly even: Readonly<Record<Policy, number>>;
  readonly planned: Readonly<Record<Policy, number>>;
  /** Bound with all batches at their cheapest size. */
  readonly boundRps: number;
}

export interface DropRow {
  readonly alphaMs: number;
  readonly lazy: number;
  readonly early: number;
  readonly default: number;
}

type OnStep = (text: string) => void;

async function meanGoodput(scenario: Scenario, seeds: readonly number[]): Promise<{ rps: number; boundRps: number }> {
  const evaluate = (one: Scenario) => Promise.resolve(simulateDetailed(one));
  let [rps, boundRps] = [0, 0];
  for (const seed of seeds) {
    const found = await goodput({ ...scenario, seed }, evaluate);
    rps += found.goodputRps / seeds.length;
    boundRps += found.bound.clairvoyantRps / seeds.length;
  }
  return { rps, boundRps };
}

/** Planned against even splits: Figure 16's settings, and the traffic example at two hours of the day. */
export async function splitting(seeds: readonly number[], onStep: OnStep): Promise<SplitRow[]> {
  const rows: SplitRow[] = [];
  for (const name of ["nexus-figure16", "nexus-traffic"]) {
    const file = await ScenarioFile.read(join(SCENARIOS, `${name}.yaml`));
    for (const choice of choicesOf(file.axes)) {
      if (choice["split"] !== "planned") continue;
      const { split: _, ...rest } = choice;
      const label = Object.entries(rest).map(([axis, value]) => `${axis} ${value}`);
      const workload = `${name.slice("nexus-".length)}, ${label.join(", ")}`;
      onStep(workload);
      const results = { even: { nexus: 0, default: 0 }, planned: { nexus: 0, default: 0 } };
      let bound = 0;
      for (const split of ["even", "planned"] as const) {
        const scenario = await file.scenario({ choice: { ...choice, split } });
        for (const policy of POLICIES) {
          const { rps, boundRps } = await meanGoodput({ ...scenario, policy }, seeds);
          results[split][policy] = rps;
          bound = boundRps;
        }
      }
      rows.push({ workload, ...results, boundRps: bound });
    }
  }
  return rows;
}

/**
 * Figure 9: one model on one accelerator, SLO 100 ms. Batches of 25 take 50 ms, so at best 500 r/s; α is the time per
 * item.
 */
export async function dropping(seeds: readonly number[], onStep: OnStep): Promise<DropRow[]> {
  const rows: DropRow[] = [];
  for (const alphaMs of [1, 1.2, 1.4, 1.6, 1.8]) {
    onStep(`dropping, α ${alphaMs} ms`);
    const profile = LatencyTable.affine({
      alpha: alphaMs * 1000,
      beta: (50 - 25 * alphaMs) * 1000,
      batchSizeMax: 64,
    });
    const rate = async (policy: string): Promise<number> => (await meanGoodput(oneModel(profile, policy), seeds)).rps;
    rows.push({ alphaMs, lazy: await rate("nexus:lazy"), early: await rate("nexus"), default: await rate("default") });
  }
  return rows;
}

const oneModel = (profile: LatencyTable, policy: string): Scenario => ({
  seed: 1,
  duration: seconds(61),
  warmup: seconds(1),
  gpus: 1,
  policy,
  gather: "target",
  rate: 450,
  arrivals: { process: "poisson" },
  network: { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 },
  models: [{ name: "model", profile, slo: millis(100), classes: [], share: 1 }],
  phases: [],
});
