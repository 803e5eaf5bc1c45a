/** The shipped inputs of `tutti plan`, with the figures of docs/algorithms.md: C9, D6 and E5. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import {
  explainFractions,
  explainPack,
  explainSubClusters,
  readFractionsInput,
  readPackInput,
  readSubClustersInput,
  renderFractions,
  renderPack,
  renderSubClusters,
  runFractions,
  runPack,
  runSubClusters,
} from "@tutti/cli/plans";
import { describe, expect, test } from "vitest";

const file = (name: string): string => join(import.meta.dirname, `${name}.yaml`);

async function packed(name: string, ...settings: string[]) {
  const input = await readPackInput(file(name), settings);
  const run = runPack(input);
  const nodes = run.result.nodes.map(({ streams }) =>
    streams.map(({ stream, batchSize }) => `${stream}${batchSize}`).join(),
  );
  return { ...run, nodes, text: renderPack(input, run.result), reasons: explainPack(input, run) };
}

describe("C9", () => {
  test("1: A and B share a node, C has one, and the table, the reasons and the JSON say so", async () => {
    const { nodes, result, text, reasons } = await packed("c9-merging", "memory=enough", "between=pad-up");
    expect(nodes).toEqual(["A8,B4", "C4"]);
    expect(result).toMatchObject({
      feasible: true,
      nodes: [
        {
          dutyCycleMs: expect.closeTo(125, 9),
          occupancy: expect.closeTo(1, 9),
          streams: [{ worstMs: 200 }, { worstMs: 175 }],
        },
        { dutyCycleMs: expect.closeTo(125, 9), occupancy: expect.closeTo(0.48, 9) },
      ],
    });
    expect(text).toMatch(/^3 streams on 2 nodes, 0 of them dedicated/);
    expect(text).toMatch(
      /^ +0 +125 ms +100 % +█{10} .*A 64 r\/s by 8 \(200 of 200 ms\), B 32 r\/s by 4 \(175 of 250 ms\)$/m,
    );
    expect(reasons[1]).toContain("They share node 0 with A, of 2 nodes with room the fullest");
    expect(reasons[2]).toContain(
      "with node 0 the batches of a cycle would take longer than the cycle; so node 1 was opened",
    );
  });

  test("1: where latency lies on a line between sizes, C begins with 5", async () => {
    expect((await packed("c9-merging", "memory=enough", "between=interpolate")).nodes).toEqual(["A8,B4", "C5"]);
  });

  test("2: little memory parts A from B", async () => {
    const { nodes, result } = await packed("c9-merging", "memory=little", "between=pad-up");
    expect(nodes).toEqual(["A8", "C4,B4"]);
    expect(result.nodes[1]!.occupancy).toBeCloseTo(0.88, 9);
  });

  test("3: saturated nodes, and residues that don't merge", async () => {
    const { nodes, result, text, reasons } = await packed("c9-saturated");
    expect(nodes).toEqual(["A16", "A16", "B16", "B16", "C16", "C8", "A8", "B4"]);
    expect(result.nodes.slice(5).map(({ occupancy }) => occupancy.toFixed(3))).toEqual(["0.855", "0.750", "0.550"]);
    expect(text).toMatch(/^0–1 .*A 160 r\/s by 16/m);
    expect(reasons[0]).toContain("Nodes 0 to 1 are its own, saturated: 320 r/s");
  });

  test.for([
    ["820", ["M24"], [0.9908]],
    ["830", ["M25"], [1]],
    ["840", ["M25", "M1"], [1, 0.1111]],
  ] as const)("4: at %s r/s the nodes are %j", async ([rate, nodes, occupancies]) => {
    const found = await packed("c9-hole", `rate=${rate}`);
    expect(found.nodes).toEqual(nodes);
    expect(found.result.nodes.map(({ occupancy }) => occupancy)).toEqual(
      occupancies.map((value) => expect.closeTo(value, 4)),
    );
    if (rate === "830") expect(found.reasons[0]).toContain("just below what a node carries");
  });

  test("5: when A's rate doubles, B moves and nothing else does", async () => {
    const { nodes, result, reasons } = await packed("c9-epoch");
    expect(nodes).toEqual(["A16", "C4,B4"]);
    expect(result.epoch).toEqual({
      nodesBefore: 2,
      loads: [{ stream: "B", node: 1 }],
      unloads: [{ stream: "B", node: 0 }],
    });
    expect(reasons[0]).toContain("Node 0 now runs nothing else");
    expect(reasons[1]).toContain("Node 0 can't carry it any more");
    expect(reasons[2]).toContain("stays where it is");
  });
});

async function split(name: string, ...settings: string[]) {
  const input = await readFractionsInput(file(name), settings);
  const run = runFractions(input);
  const parts = run.result.executors.map((executor) =>
    executor.parts
      .map(({ size, dutyCycleMs, models }) => {
        const items = models.map(({ model, batchSize }) => `${model} b${batchSize}`).join(" + ");
        return `${size} %[${items} d=${Number((dutyCycleMs ?? 0).toFixed(3))}]`;
      })
      .join(" "),
  );
  return { ...run, parts, text: renderFractions(run.result), reasons: explainFractions(input, run) };
}

describe("D6", () => {
  test("1: what res and vgg carry by size, the knee and the size that they require", async () => {
    const { result } = await split("d6-mixes", "mix=res-vgg");
    const rates = (name: string) =>
      result.models
        .find(({ model }) => model === name)!
        .bySize.map(({ rate, batchSize }) => `${rate.toFixed(2)}@${batchSize}`);
    expect(rates("res")).toEqual(["117.65@6", "235.29@12", "296.30@16", "355.14@19", "472.81@25", "592.59@32"]);
    expect(rates("vgg")).toEqual(["89.55@6", "179.10@12", "223.88@15", "269.50@19", "359.07@25", "448.63@31"]);
    const sized = result.models.filter(({ rate }) => rate > 0);
    expect(sized.map(({ model, kneeSize, requiredSize }) => [model, kneeSize, requiredSize])).toEqual([
      ["res", 50, 40],
      ["vgg", 60, 40],
    ]);
  });

  test.for([
    ["res-vgg", "40 %[vgg b9 d=90] 60 %[res b13 d=65]", 1],
    ["goo-res-vgg", "20 %[goo b4 d=40] 80 %[res b8 + vgg b8 d=80]", 2],
    ["den-goo", "40 %[goo b9 d=36] 60 %[den b14 d=116.667]", 2],
  ] as const)("2: %s is %s on one accelerator, and %i whole ones", async ([mix, expected, whole]) => {
    const { parts, result } = await split("d6-mixes", `mix=${mix}`);
    expect(parts).toEqual([expected]);
    expect(result).toMatchObject({ feasible: true, used: 1, wholeExecutors: whole });
  });

  test("2: with interference both batches are smaller, and the reasons name rule and factor", async () => {
    const { parts, text, reasons } = await split("d6-interference", "mix=res-vgg");
    expect(parts).toEqual(["40 %[vgg b8 d=80] 60 %[res b12 d=60]"]);
    expect(text).toMatch(/^2 models on 1 accelerator \(whole ones: 1, greedy best-fit: 1\)/);
    const [, vgg, res] = reasons;
    expect(vgg).toContain("accelerator 0 was split for it, 40/60 (best fit, D3; just what is ideal)");
    expect(vgg).toContain("Since others came, its batches are 8 instead of 9");
    expect(res).toContain(
      "Beside its neighbour it takes 1.16 times as long (interference, D2). Its neighbour's batches were made smaller",
    );
  });

  test("where splitting as needed fails, the portfolio's split is named", async () => {
    const { result, reasons } = await split("d6-interference", "mix=nas-mob");
    expect(result).toMatchObject({ feasible: true, used: 1, splits: [60] });
    expect(reasons[1]).toContain("with splits that are fixed beforehand (60/40) all fits (portfolio, D3)");
  });

  test("where the portfolio fails, models come in the other order, or parts leave room for neighbours; the reasons say so", async () => {
    const other = await split("d6-interference", "mix=nas-mob-vgg");
    expect(other.result).toMatchObject({ feasible: true, used: 1, order: "descending", neighbours: "as-they-are" });
    expect(other.reasons[0]).toBe("Models come in descending order of rate times SLO (D3).");
    const room = await split("d6-interference", "mix=much");
    expect(room.result).toMatchObject({ feasible: true, used: 3, order: "ascending", neighbours: "expected" });
    expect(room.reasons[1]).toBe(
      "A part that one model fills takes no more than it could carry beside any other: without that room something was left out.",
    );
  });

  test("3: accelerators for goo, res and vgg at one to four times 100 r/s, beside whole ones", async () => {
    const mixes = ["goo-res-vgg", "twice", "three-times", "four-times"];
    const found = await Promise.all(mixes.map((mix) => split("d6-mixes", `mix=${mix}`)));
    expect(found.map(({ result }) => [result.used, result.wholeExecutors])).toEqual([
      [1, 2],
      [2, 2],
      [2, 3],
      [3, 3],
    ]);
    expect(found[0]!.reasons.at(-1)).toContain("It takes turns with res on the 80 % of accelerator 0");
  });

  test("5: coefficients are fitted from measured pairs", async () => {
    const { result } = await split("d6-all");
    const expected = [0.236943, 0.53998, 0.388462, 0.210121, 0.853573];
    expect(result.interference).toEqual(expected.map((value) => expect.closeTo(value, 6)));
    expect(result.used).toBeLessThan(result.wholeExecutors!);
  });
});

async function placed(name: string, ...settings: string[]) {
  const input = await readSubClustersInput(file(name), settings);
  const run = runSubClusters(input);
  return { ...run, text: renderSubClusters(run.result), reasons: explainSubClusters(input, run) };
}

describe("E5", () => {
  test("the best first plan is worth 7.5, with {2, 3, 5} apart from {1, 4, 6}", async () => {
    const { result, text } = await placed("e5-subclusters");
    expect(result).toMatchObject({ feasible: true, objective: 7.5, rateGap: 5, memoryGapMb: 0.5 });
    expect(result.imbalance).toEqual({ rate: expect.closeTo(0.095238, 6), memory: expect.closeTo(0.095238, 6) });
    expect(result.subClusters.map(({ models }) => models.map((name) => name.at(-1)).join("")).toSorted()).toEqual([
      "146",
      "235",
    ]);
    expect(text).toContain("objective 7.5 (greedy: 17.5)");
  });

  test("within a budget of 1 nothing is feasible: the plan before, the bound that it breaks, and no success", async () => {
    const { result, text, reasons } = await placed("e5-budget", "budget=1");
    expect(result).toMatchObject({ feasible: false, moved: 0, rateGap: 45, memoryGapMb: 1.5 });
    expect(text).toContain("No plan within the budget keeps the bounds");
    expect(reasons[1]).toBe("sub-cluster 1 would have 150 r/s, above its bound of 120");
  });

  test.for(["2", "17"])(
    "within a budget of %s model 6 moves, and the reason is the bound that it saves",
    async (budget) => {
      const { result, reasons } = await placed("e5-budget", `budget=${budget}`);
      expect(result).toMatchObject({ feasible: true, objective: 17.5, moved: 1, moveCost: 2 });
      expect(reasons[5]).toBe(
        "model-6 (60 r/s, 1 MB): moves from 1 to 0, at a cost of 2. Left where it was, sub-cluster 1 would have 150 r/s, above its bound of 120.",
      );
    },
  );

  test("a budget of 18 buys the best plan there is, by moving models 1 and 5", async () => {
    const { result } = await placed("e5-budget", "budget=18");
    expect(result).toMatchObject({ feasible: true, objective: 7.5, moved: 2, moveCost: 18 });
    const moved = result.models.filter(({ subCluster, was }) => subCluster !== was).map(({ model }) => model);
    expect(moved).toEqual(["model-1", "model-5"]);
  });
});

test("on two levels each cluster keeps its scheduler's bound, sub-clusters are numbered through, and a reason names the bound above", async () => {
  const { result, text, reasons } = await placed("two-levels");
  expect(result.feasible).toBe(true);
  expect(result.subClusters.map(({ cluster }) => cluster)).toEqual([0, 0, 1, 1]);
  for (const cluster of [0, 1]) {
    const own = result.subClusters.filter((one) => one.cluster === cluster);
    expect(own.reduce((sum, { rate }) => sum + rate, 0)).toBeLessThanOrEqual(500);
  }
  expect(text).toMatch(/^8 models over 4 sub-clusters of 2 clusters:/);
  expect(text).toMatch(/^cluster +sub-cluster +r\/s/m);
  expect(reasons.join("\n")).toMatch(/\bcluster [01] would have \d+ r\/s, above its bound of 500/);
});

test("every shipped input is run by a test", () => {
  const shipped = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".yaml"));
  expect(shipped.toSorted()).toEqual(
    [
      "c9-epoch",
      "c9-fork-join",
      "c9-hole",
      "c9-merging",
      "c9-saturated",
      "c9-split",
      "d6-all",
      "d6-interference",
      "d6-mixes",
      "e5-budget",
      "e5-subclusters",
      "scale-steps",
      "two-levels",
    ].map((name) => `${name}.yaml`),
  );
});
