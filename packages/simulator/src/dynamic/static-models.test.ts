/** Models whose requests all take the same time: planning with distributions decides on them as without. */
import { expect, test } from "vitest";
import { decisionLog } from "../results/decision-log.ts";
import { simulate } from "../run.ts";
import type { Scenario, ScenarioModel } from "../scenario/scenario.ts";
import { around, dynamicLoad, dynamicModel } from "../testing/dynamic-model.ts";
import { smallScenario } from "../testing/small-scenario.ts";
import { TuttiCluster } from "../cluster/tutti-cluster.ts";
import type { Lengths } from "./lengths.ts";

const always = (ms: number): Lengths => ({ kind: "constant", at: 1_000 * ms });
/** Two applications that take 10 ms each; and beside them a model whose size hints add no information. */
const CONSTANT = [
  dynamicModel("two", dynamicLoad([always(10), always(10)]), 0.7),
  dynamicModel("one", dynamicLoad([always(4)], { hints: "exact" }), 0.3),
];
const withoutDistributions = ({ dynamic: _, ...model }: ScenarioModel): ScenarioModel => model;

const POLICIES = ["deferred", "adaptive"] as const;
type Kind = (typeof POLICIES)[number];

/** Decisions of a run that plans with distributions where models have them. */
function decisions(scenario: Scenario, kind: Kind): string[] {
  const lines: string[] = [];
  const listener = decisionLog(scenario, (line) => lines.push(line));
  const tuning = { policy: { kind }, gather: "target", knows: "distributions" } as const;
  simulate(scenario, { listener, cluster: (options) => new TuttiCluster(options, tuning) });
  return lines;
}

test.each(POLICIES)(
  "a model whose requests all take as long has, planned with its distributions, the decision log of a static one of its l(b): %s",
  (kind) => {
    for (const [rate, gpus] of [
      [40, 2],
      [900, 3],
    ] as const) {
      const scenario = smallScenario({ models: CONSTANT, rate, gpus });
      const own = decisions(scenario, kind);
      expect(own).toEqual(decisions({ ...scenario, models: CONSTANT.map(withoutDistributions) }, kind));
      expect(own.filter((line) => line.includes('"refuse"')).length > 0).toBe(rate === 900); // calm, and overloaded
    }
  },
);

test("the policy by the name of deferred decides on static models as deferral that is given distributions", () => {
  const scenario = smallScenario({ models: CONSTANT, rate: 900, gpus: 3, policy: "deferred" });
  const lines: string[] = [];
  simulate(scenario, { listener: decisionLog(scenario, (line) => lines.push(line)) });
  expect(lines).toEqual(decisions(scenario, "deferred"));
});

test("requests that vary are decided on by their distributions", () => {
  const scenario = smallScenario({ models: [dynamicModel("d", dynamicLoad([around(10)]))], rate: 300, gpus: 2 });
  const plain = { ...scenario, models: scenario.models.map(withoutDistributions) };
  expect(decisions(scenario, "deferred")).not.toEqual(decisions(plain, "deferred"));
});
