import { describe, expect, test } from "vitest";
import {
  type FractionModel,
  type Interference,
  type Parts,
  SIZES,
  factorBeside,
  fitInterference,
  greedyBestFit,
  kneeOf,
  pack,
  partition,
  partitionPortfolio,
  partitionThoroughly,
  predictionError,
  requiredSize,
  throughputAt,
} from "../index.ts";
import { D6_INTERFERENCE as C, D6_PROFILES as PROFILES, d6Model } from "../testing/index.ts";

type Name = (typeof PROFILES)[number]["name"];

const modelAt = (name: Name, perSecond: number): FractionModel =>
  d6Model(
    PROFILES.findIndex((profile) => profile.name === name),
    perSecond,
  );
const at = (rates: Partial<Record<Name, number>>): FractionModel[] =>
  Object.entries(rates).map(([name, rate]) => modelAt(name as Name, rate));

const textOf = (parts: Parts): string =>
  parts
    .map(({ size, plan }) => {
      const items = plan?.items.map(({ model, batchSize }) => `${PROFILES[model.id]!.name} b${batchSize}`).toSorted();
      return `${size} %[${items?.join(" + ") ?? ""}${plan === undefined ? "" : ` d=${Number(plan.dutyCycle.toFixed(3))}`}]`;
    })
    .toSorted()
    .join(" ");

describe("D6, worked", () => {
  test("1: throughput by size, the knee, and the size that a rate requires", () => {
    const rates = (name: Name) =>
      SIZES.map((size) => {
        const { rate, batchSize } = throughputAt(modelAt(name, 1), size)!;
        return `${(1000 * rate).toFixed(2)}@${batchSize}`;
      });
    expect(rates("res")).toEqual(["117.65@6", "235.29@12", "296.30@16", "355.14@19", "472.81@25", "592.59@32"]);
    expect(rates("vgg")).toEqual(["89.55@6", "179.10@12", "223.88@15", "269.50@19", "359.07@25", "448.63@31"]);
    expect([kneeOf(modelAt("res", 1)), kneeOf(modelAt("vgg", 1))]).toEqual([50, 60]);
    const required = (name: Name) => [100, 200].map((rate) => requiredSize(modelAt(name, 1), rate / 1000));
    expect([required("res"), required("vgg")]).toEqual([
      [20, 40],
      [40, 50],
    ]);
  });

  test("2: one executor where whole ones need two", () => {
    const on = (rates: Partial<Record<Name, number>>, interference?: Interference) =>
      partition(at(rates), { executors: 1, ...(interference !== undefined && { interference }) })!.executors.map(
        textOf,
      )[0];
    expect(on({ res: 200, vgg: 100 })).toBe("40 %[vgg b9 d=90] 60 %[res b13 d=65]");
    expect(on({ goo: 100, res: 100, vgg: 100 })).toBe("20 %[goo b4 d=40] 80 %[res b8 + vgg b8 d=80]");
    expect(on({ den: 120, goo: 250 })).toBe("40 %[goo b9 d=36] 60 %[den b14 d=116.667]");
    expect(on({ res: 200, vgg: 100 }, C)).toBe("40 %[vgg b8 d=80] 60 %[res b12 d=60]");
    expect(wholeNodes(at({ goo: 100, res: 100, vgg: 100 }))).toBe(2);
    expect(wholeNodes(at({ den: 120, goo: 250 }))).toBe(2);
  });

  test("3: executors for three models at one to four times 100 r/s", () => {
    const needed = [1, 2, 3, 4].map((k) => {
      const models = at({ goo: 100 * k, res: 100 * k, vgg: 100 * k });
      const fractions = [1, 2, 3, 4].find((executors) => partition(models, { executors }) !== undefined);
      return [fractions, wholeNodes(models)];
    });
    expect(needed).toEqual([
      [1, 2],
      [2, 2],
      [2, 3],
      [3, 3],
    ]);
  });

  test("5: least squares", () => {
    const rows: readonly (readonly [number, number, number, number, number])[] = [
      [0.1, 0.2, 0.3, 0.1, 1.1],
      [0.4, 0.1, 0.2, 0.5, 1.2],
      [0.3, 0.6, 0.1, 0.2, 1.35],
      [0.5, 0.4, 0.6, 0.3, 1.52],
      [0.2, 0.3, 0.5, 0.6, 1.38],
      [0.6, 0.5, 0.4, 0.4, 1.46],
    ];
    const samples = rows.map(([a, b, c, d, factor]) => ({ uses: [a, b, c, d] as const, factor }));
    const { coefficients, residualNorm } = fitInterference(samples);
    const expected = [0.236943, 0.53998, 0.388462, 0.210121, 0.853573];
    expect(coefficients).toEqual(expected.map((value) => expect.closeTo(value, 6)));
    expect(residualNorm).toBeCloseTo(0.067064, 6);
    const { p90, p95 } = predictionError(coefficients, samples);
    expect(p90).toBeLessThanOrEqual(p95);
    expect(p95).toBeLessThan(0.05);
    const alone = { model: modelAt("le", 1), size: 20 };
    expect(factorBeside(C, alone, alone)).toBe(1);
  });
});

/** C on whole executors. */
const wholeNodes = (models: readonly FractionModel[]): number => {
  const sizes = Array.from({ length: 32 }, (_, i) => i + 1);
  const { nodes } = pack(
    models.map(({ id, slo, rate, latency }) => ({
      ...{ id, slo, rate },
      latency: { batchSizes: sizes, latency: (b) => (b > 32 ? Infinity : latency(b, 100)) },
    })),
  );
  return nodes.length;
};

const SHARED = PROFILES.map(({ name }) => [100, 200].map((rate) => modelAt(name, rate)));

/** §3.2: every model at 0, 100 or 200 r/s, in the order of a counter to base 3. */
function scenario(number: number): FractionModel[] {
  const models: FractionModel[] = [];
  for (const [i, rest] = [0, number] as [number, number], state = { i, rest }; state.rest > 0; state.i++) {
    const digit = state.rest % 3;
    if (digit > 0) models.push(SHARED[state.i]![digit - 1]!);
    state.rest = Math.floor(state.rest / 3);
  }
  return models;
}
const SCENARIOS = 3 ** 9 - 1;

test("D6.4: how many of the 19,682 scenarios fit on one executor", { timeout: 60_000 }, () => {
  const counts = { whole: 0, elastic: 0, both: 0 };
  for (let number = 1; number <= SCENARIOS; number++) {
    const models = scenario(number);
    if (wholeNodes(models) <= 1) counts.whole++;
    if (partition(models, { executors: 1 }) !== undefined) counts.elastic++;
    if (partitionPortfolio(models, { executors: 1, interference: C }) !== undefined) counts.both++;
  }
  expect(counts).toEqual({ whole: 32, elastic: 224, both: 198 });
});

test("greedy best-fit gives each model the least part that serves it, and needs more executors than partitioning", () => {
  const parts = greedyBestFit(at({ goo: 100, res: 100, vgg: 100 }))!;
  expect(parts.map((own) => own.map(({ model, size }) => `${PROFILES[model.id]!.name} ${size}`))).toEqual([
    ["vgg 40", "goo 20"],
    ["res 20"],
  ]);
  const much = greedyBestFit(at({ res: 1400, le: 100 }))!;
  expect(much.flat().filter(({ size }) => size === 100).length).toBeGreaterThanOrEqual(2);
  const served = much
    .flat()
    .filter(({ model }) => model.id === 5)
    .reduce((sum, { rate }) => sum + rate, 0);
  expect(served).toBeCloseTo(1.4, 9);
  for (const own of much) expect(own.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(100);
  let [greedy, elastic] = [0, 0];
  for (let number = 11; number <= SCENARIOS; number += 211) {
    const models = scenario(number);
    if (greedyBestFit(models)!.length <= 3) greedy++;
    if (partitionPortfolio(models, { executors: 3 }) !== undefined) elastic++;
  }
  expect(elastic).toBeGreaterThan(greedy);
});

test("parts sum to a whole, rates are served in full, each part passes its tests beside its neighbour, and more executors never fit less (D7)", () => {
  for (let number = 7; number <= SCENARIOS; number += 197) {
    const models = scenario(number);
    let fitted = false;
    for (const executors of [2, 3, 4]) {
      const found = partitionThoroughly(models, { executors, interference: C });
      if (fitted) expect(found).toBeDefined();
      if (found === undefined) continue;
      fitted = true;
      expect(partitionThoroughly(models, { executors })).toBeDefined();
      for (const parts of found.executors) {
        expect(parts.reduce((sum, { size }) => sum + size, 0)).toBe(100);
        // A trial that failed leaves its executor whole (PARTITION-2).
        if (parts.length === 2 && found.attempt.splits === undefined)
          expect(parts.some(({ plan }) => plan !== undefined)).toBe(true);
      }
      for (const model of models) {
        const served = found.executors.flatMap((parts) => parts.flatMap(({ plan }) => plan?.items ?? []));
        const own = served.filter((item) => item.model.id === model.id).reduce((sum, { rate }) => sum + rate, 0);
        expect(own).toBeCloseTo(model.rate, 9);
      }
      expectFits(found.executors);
    }
  }
});

function expectFits(executors: readonly Parts[]): void {
  for (const parts of executors) {
    for (const [place, { size, plan }] of parts.entries()) {
      if (plan === undefined) continue;
      const other = parts[1 - place];
      let busy = 0;
      for (const { model, rate, batchSize } of plan.items) {
        const beside = other?.plan?.items ?? [];
        const factors = beside.map((item) =>
          factorBeside(C, { model, size }, { model: item.model, size: other!.size }),
        );
        const latency = model.latency(batchSize, size) * Math.max(1, ...factors);
        busy += latency;
        expect(plan.isSaturated ? 2 * latency : plan.dutyCycle + latency).toBeLessThanOrEqual(model.slo + 1e-6);
        expect(plan.isSaturated ? batchSize / latency : batchSize / plan.dutyCycle).toBeGreaterThanOrEqual(
          rate * (1 - 1e-8),
        );
      }
      expect(busy).toBeLessThanOrEqual(plan.dutyCycle + 1e-6);
    }
  }
}
