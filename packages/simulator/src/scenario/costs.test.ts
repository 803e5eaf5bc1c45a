import { millis } from "@tutti/units";
import type { Instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type CostRule, costOf, stepsOf } from "./costs.ts";
import { decisionLines } from "../results/decision-log.ts";
import { simulate } from "../run.ts";
import type { Scenario, ScenarioModel } from "./scenario.ts";
import { tellStory } from "../results/story.ts";
import { around, dynamicLoad, dynamicModel } from "../testing/dynamic-model.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

const ONE: readonly CostRule[] = [{ slos: 1, cost: 1 }];
const TWO: readonly CostRule[] = [
  { slos: 1, cost: 1 },
  { slos: 4, cost: 3 },
];

/** Overloaded now and then. */
const loaded = (only: ScenarioModel, changes: Partial<Scenario> = {}): Scenario =>
  smallScenario({
    models: [only],
    arrivals: { process: "gamma", shape: 0.1 },
    policy: "default",
    rate: 5_500,
    ...changes,
  });
const dynamic = (costs?: readonly CostRule[]): ScenarioModel => ({
  ...dynamicModel("m", dynamicLoad([around(20), around(60)]), 1, 2),
  ...(costs && { costs }),
});

test("an answer costs what the last step before it does; a refused request costs that of the last", () => {
  const steps = stepsOf(TWO, 1_000 as Instant, millis(25));
  const request = { steps, deadline: 26_000 as Instant };
  expect([26_000, 26_001, 101_000, 101_001, Infinity].map((at) => costOf(request, at))).toEqual([0, 1, 1, 3, 3]);
  const plain = { steps: undefined, deadline: 26_000 as Instant };
  expect([26_000, 26_001, Infinity].map((at) => costOf(plain, at))).toEqual([0, 1, 1]);
});

test("with one step that costs 1 every decision is the same as without costs, static and dynamic, in every policy", () => {
  const policies = ["default", "deferred", "eager", "default:first-step", "orloj", "orloj:urgent", "clockwork"];
  const models = [(costs?: readonly CostRule[]) => model("m", 1, costs && { costs }), dynamic] as const;
  fc.assert(
    fc.property(
      fc.constantFrom(...policies),
      fc.constantFrom(...models),
      fc.integer({ min: 1, max: 1_000 }),
      (policy, make, seed) => {
        const isDynamic = make === dynamic;
        const changes = {
          policy,
          seed,
          ...(isDynamic ? { gpus: 1, rate: 30 } : { rate: 6_000 }),
          duration: millis(400),
        };
        const [without, withOne] = [make(), make(ONE)].map((one) => loaded(one, { ...changes, warmup: millis(0) }));
        expect(decisionLines(withOne!)).toEqual(decisionLines(without!));
        const { cost, ...result } = simulate(withOne!);
        const { models: told, ...rest } = result;
        const { models: plain, ...others } = simulate(without!);
        expect(rest).toEqual(others);
        expect(told[0]!.p99Ms).toBe(plain[0]!.p99Ms);
        expect(cost!.mean).toBe(result.badRate);
      },
    ),
    { numRuns: 30 },
  );
});

test.each([
  ["static", loaded(model("m", 1, { costs: TWO }))],
  [
    "static, over a network",
    loaded(model("m", 1, { costs: TWO }), {
      network: { ctrl: millis(0.1), data: millis(0.01), respond: millis(0.2), jitter: 0.1 },
    }),
  ],
  ["dynamic", loaded(dynamic(TWO), { gpus: 1, rate: 50, duration: millis(20_000), arrivals: { process: "poisson" } })],
] as const)("requests with a second step cost less than if their SLO alone counted: %s", (_, scenario) => {
  const costOfPolicy = (policy: string): number => simulate({ ...scenario, policy }).cost!.total;
  const [steps, first] = [costOfPolicy("default"), costOfPolicy("default:first-step")];
  expect(first).toBeGreaterThan(0);
  expect(steps).toBeLessThan(0.9 * first);
  expect(simulate({ ...scenario, policy: "default:first-step" }).badRate).toBe(
    simulate({ ...scenario, models: scenario.models.map(({ costs: _costs, ...one }) => one) }).badRate,
  );
});

test("classes of one model may have costs of their own, and only those with steps are served late", () => {
  const classes = [{ slo: millis(25), share: 0.5, costs: TWO }];
  const scenario = loaded(model("m", 1, { classes }), { policy: "default" });
  const lines = decisionLines(scenario).map((line) => JSON.parse(line) as Record<string, number>);
  const arrivals = new Map(
    lines.filter(({ event }) => (event as unknown) === "arrive").map((line) => [line["request"]!, line]),
  );
  const stepped = [...arrivals.values()].filter(({ lastDeadline }) => lastDeadline !== undefined);
  expect(stepped.length / arrivals.size).toBeCloseTo(0.5, 1);
  const ends = new Map(
    lines.filter(({ event }) => (event as unknown) === "finish").map((line) => [line["batch"]!, line["at"]!]),
  );
  const late = { stepped: 0, plain: 0 };
  for (const line of lines) {
    if ((line["event"] as unknown) !== "dispatch") continue;
    for (const id of line["requests"] as unknown as number[]) {
      const arrival = arrivals.get(id)!;
      if (ends.get(line["batch"]!)! > arrival["deadline"]!)
        late[arrival["lastDeadline"] === undefined ? "plain" : "stepped"]++;
    }
  }
  expect(late.stepped).toBeGreaterThan(50);
  expect(late.plain).toBe(0);
});

test("a story says that a request was served for a later step, and a refusal counts to the last one", () => {
  const scenario = loaded(model("m", 1, { costs: TWO }), { rate: 8_000 });
  const stories = Array.from({ length: 3_000 }, (_, i) => i + 5_000);
  const lines = decisionLines(scenario).map((line) => JSON.parse(line) as Record<string, unknown>);
  const refused = lines.find(({ event, request }) => event === "refuse" && Number(request) > 5_000)![
    "request"
  ] as number;
  const told = tellStory(scenario, refused)!;
  expect(told).toContain("Its costs have later steps: an answer was still worth something until");
  const [, after] = /It was refused at .*, after ([\d.]+) ms/.exec(told)!;
  expect(Number(after)).toBeGreaterThan(50); // twice its SLO
  const ends = new Map(
    lines.filter(({ event }) => event === "finish").map((line) => [line["batch"], Number(line["at"])]),
  );
  const deadlines = new Map(
    lines.filter(({ event }) => event === "arrive").map((line) => [line["request"], Number(line["deadline"])]),
  );
  const batch = lines.find(
    ({ event, batch: id, requests }) =>
      event === "dispatch" &&
      (requests as number[]).some((one) => stories.includes(one) && ends.get(id)! > deadlines.get(one)!),
  )!;
  const late = (batch["requests"] as number[]).find((one) => ends.get(batch["batch"])! > deadlines.get(one)!)!;
  expect(tellStory(scenario, late)).toContain(
    "It had missed its deadline, and was served for a later step of its costs.",
  );
});
