import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BatchLatency,
  type PackedNode,
  type PackingPlan,
  type Stream,
  atMost,
  batchOblivious,
  dedicated,
  fitted,
  nextEpoch,
  pack,
  saturated,
} from "../index.ts";
import { leastNodes } from "../testing/least-nodes.ts";

/** A latency table from its points; between them the next size up, or a line. */
function table(points: Readonly<Record<number, number>>, between: "pad-up" | "interpolate"): BatchLatency {
  const sizes = Object.keys(points).map(Number);
  const latency = (b: number): number => {
    const above = sizes.find((size) => size >= b);
    if (above === undefined) return Infinity;
    const below = sizes.findLast((size) => size <= b);
    if (between === "pad-up" || below === undefined || below === above) return points[above]!;
    return points[below]! + ((b - below) / (above - below)) * (points[above]! - points[below]!);
  };
  const all = Array.from({ length: sizes.at(-1)! }, (_, i) => i + 1);
  return { batchSizes: between === "pad-up" ? sizes : all.filter((b) => b >= sizes[0]!), latency };
}
const affine = (alpha: number, beta: number, most = 64): BatchLatency => ({
  batchSizes: Array.from({ length: most }, (_, i) => i + 1),
  latency: (b) => (b > most ? Infinity : alpha * b + beta),
});

const POINTS = [
  { 4: 50, 8: 75, 16: 100 },
  { 4: 50, 8: 90, 16: 125 },
  { 4: 60, 8: 95, 16: 125 },
];
const SLOS = [200, 250, 250];
const MEMORY = [6, 5, 4];
/** A, B and C of C9, at rates in requests per second. */
const streamsAt = (rates: readonly number[], between: "pad-up" | "interpolate" = "pad-up"): Stream[] =>
  rates.map((rate, id) => ({
    id,
    slo: SLOS[id]!,
    rate: rate / 1000,
    latency: table(POINTS[id]!, between),
    memory: MEMORY[id]!,
  }));
const NAMES = "ABC";
const textOf = ({ items }: PackedNode): string =>
  items
    .map(({ stream, batchSize }) => `${NAMES[stream.id]}${batchSize}`)
    .toSorted()
    .join();
const textsOf = ({ nodes }: PackingPlan): string[] => nodes.map(textOf);

describe("C9, worked", () => {
  test("1: residues merge where their cycles allow", () => {
    const { nodes } = pack(streamsAt([64, 32, 32]));
    expect(nodes.map(textOf)).toEqual(["A8,B4", "C4"]);
    expect(nodes[0]).toMatchObject({ dutyCycle: expect.closeTo(125, 9), occupancy: expect.closeTo(1, 9) });
    expect(nodes[1]!.occupancy).toBeCloseTo(0.48, 9);
    expect(textsOf(pack(streamsAt([64, 32, 32], "interpolate")))).toEqual(["A8,B4", "C5"]);
  });

  test("2: weights stay resident, so memory parts what time would join", () => {
    const { nodes } = pack(streamsAt([64, 32, 32]), { memory: 10 });
    expect(nodes.map(textOf)).toEqual(["A8", "B4,C4"]);
    expect(nodes[1]!.occupancy).toBeCloseTo(0.88, 9);
  });

  test("3: saturated nodes first, and residues that don't merge", () => {
    const { nodes } = pack(streamsAt([400, 300, 200]));
    expect(nodes.filter(({ isDedicated }) => isDedicated).map(textOf)).toEqual(["A16", "A16", "B16", "B16", "C16"]);
    const rest = nodes.filter(({ isDedicated }) => !isDedicated);
    expect(rest.map((node) => [textOf(node), node.occupancy.toFixed(3), node.dutyCycle.toFixed(3)])).toEqual([
      ["C8", "0.855", "111.111"],
      ["A8", "0.750", "100.000"],
      ["B4", "0.550", "90.909"],
    ]);
  });

  test("4: just below saturation, smaller batches can't sustain the rate", () => {
    const nodesAt = (rate: number) => pack([{ id: 0, slo: 60, rate: rate / 1000, latency: affine(1, 5) }]).nodes;
    expect(nodesAt(820)).toMatchObject([
      { items: [{ batchSize: 24 }], occupancy: expect.closeTo(0.9908, 4), isDedicated: false },
    ]);
    expect(nodesAt(830)).toMatchObject([{ items: [{ batchSize: 25 }], dutyCycle: 30, isDedicated: true }]);
    expect(nodesAt(840)).toMatchObject([
      { items: [{ batchSize: 25 }], isDedicated: true },
      { items: [{ batchSize: 1 }], dutyCycle: 54, isDedicated: false },
    ]);
  });

  test("5: an epoch in which A doubles makes exactly one move", () => {
    const before = pack(streamsAt([64, 32, 32]));
    const after = nextEpoch(before, streamsAt([128, 32, 32]));
    expect(after.nodes.map((node) => [node.id, textOf(node)])).toEqual([
      [0, "A16"],
      [1, "B4,C4"],
    ]);
    expect(after.nodes[1]!.occupancy).toBeCloseTo(0.88, 9);
    expect([after.loads, after.unloads]).toEqual([[{ stream: 1, node: 1 }], [{ stream: 1, node: 0 }]]);
  });
});

test("what can't be served says why, and doesn't keep the others from being served", () => {
  const { nodes, unplaced } = pack(
    [
      { id: 0, slo: 20, rate: 1, latency: affine(1, 15) },
      { id: 1, slo: 100, rate: 0.1, latency: affine(1, 5), memory: 99 },
      { id: 2, slo: 100, rate: 0.1, latency: affine(1, 5), memory: 1 },
    ],
    { memory: 10 },
  );
  expect(unplaced.map(({ stream, reason }) => [stream.id, reason])).toEqual([
    [0, "slo-too-short"],
    [1, "too-large"],
  ]);
  expect(nodes.flatMap(({ items }) => items.map(({ stream }) => stream.id))).toEqual([2]);
});

const streams = (most: number) =>
  fc
    .array(
      fc.record({
        slo: fc.integer({ min: 30, max: 400 }),
        rate: fc.double({ min: 0.001, max: 3, noNaN: true }),
        alpha: fc.double({ min: 0.05, max: 3, noNaN: true }),
        beta: fc.double({ min: 0.5, max: 14, noNaN: true }),
        memory: fc.integer({ min: 1, max: 5 }),
      }),
      { minLength: 1, maxLength: most },
    )
    .map((all) =>
      all.map(({ alpha, beta, ...stream }, id): Stream => ({ id, ...stream, latency: affine(alpha, beta) })),
    );

function expectSound(plan: PackingPlan, given: readonly Stream[], memory: number): void {
  for (const { items, dutyCycle, isDedicated, occupancy } of plan.nodes) {
    const busy = items.reduce((sum, { stream, batchSize }) => sum + stream.latency.latency(batchSize), 0);
    expect(atMost(busy, dutyCycle)).toBe(true);
    expect(occupancy).toBeCloseTo(busy / dutyCycle, 9);
    expect(items.reduce((sum, { stream }) => sum + (stream.memory ?? 0), 0)).toBeLessThanOrEqual(memory);
    if (isDedicated) expect(items.length).toBe(1);
    for (const { stream, rate, batchSize } of items) {
      expect(batchSize).toBeGreaterThanOrEqual(rate * dutyCycle * (1 - 1e-8));
      expect(atMost(dutyCycle + stream.latency.latency(batchSize), stream.slo)).toBe(true);
    }
  }
  for (const stream of given) {
    const served = plan.nodes.flatMap(({ items }) => items).filter((item) => item.stream.id === stream.id);
    const missing = plan.unplaced.filter((one) => one.stream.id === stream.id);
    const total = [...served, ...missing].reduce((sum, { rate }) => sum + rate, 0);
    expect(total).toBeCloseTo(stream.rate, 6);
  }
}

test("nodes keep their cycles, SLOs and memory, and every stream is served in full (C10)", () => {
  fc.assert(
    fc.property(streams(12), fc.integer({ min: 5, max: 12 }), (given, memory) => {
      const plan = pack(given, { memory });
      expectSound(plan, given, memory);
      // A residue has at most one node; the rest are dedicated.
      const residues = given.filter((stream) => {
        const most = saturated(stream)?.rate ?? Infinity;
        return (stream.rate / most) % 1 > 1e-9;
      });
      const shared = plan.nodes.filter(({ isDedicated }) => !isDedicated);
      expect(shared.length).toBeLessThanOrEqual(residues.length);
      expect(new Set(shared.flatMap(({ items }) => items.map(({ stream }) => stream.id))).size).toBe(
        shared.flatMap(({ items }) => items).length,
      );
    }),
  );
});

test("a sequence of epochs keeps all that, and equal rates move nothing (EPOCH-1)", () => {
  const factors = fc.array(fc.array(fc.double({ min: 0, max: 3, noNaN: true }), { minLength: 8, maxLength: 8 }), {
    maxLength: 5,
  });
  const keeps = fc.property(streams(8), factors, (given, epochs) => {
    let plan = pack(given, { memory: 8 });
    for (const factor of epochs) {
      const now = given.map((stream, i) => ({ ...stream, rate: stream.rate * Math.max(0.01, factor[i]!) }));
      plan = nextEpoch(plan, now, { memory: 8 });
      expectSound(plan, now, 8);
      const again = nextEpoch(plan, now, { memory: 8 });
      // A share that found no place elsewhere finds none the second time; nothing else may move.
      expect([...again.loads, ...again.unloads]).toEqual([]);
      expectSound(again, now, 8);
    }
  });
  fc.assert(keeps, { numRuns: 60 });
  // Here a node can be released only after what was left has been placed: one sequence in a thousand.
  fc.assert(keeps, { seed: 1, path: "666", numRuns: 1 });
});

test("rates that change by less than 3 % on nodes that can bear it move nothing, but for nodes that are released (EPOCH-1)", () => {
  const factors = fc.array(fc.double({ min: 0.971, max: 1.029, noNaN: true }), { minLength: 8, maxLength: 8 });
  let borne = 0;
  fc.assert(
    fc.property(streams(8), factors, (given, factor) => {
      const plan = pack(given, { memory: 8 });
      const now = given.map((stream, i) => ({ ...stream, rate: stream.rate * factor[i]! }));
      const canBear = plan.nodes.every(({ id, items }) => {
        const shares = items.map(({ stream, rate }) => ({ stream: now[stream.id]!, rate: rate * factor[stream.id]! }));
        const alone = shares.length === 1 ? dedicated(id, shares[0]!) : undefined;
        return (fitted(id, shares, 8) ?? alone) !== undefined;
      });
      if (!canBear) return;
      borne++;
      const next = nextEpoch(plan, now, { memory: 8 });
      expectSound(next, now, 8);
      const left = new Set(next.nodes.map(({ id }) => id));
      expect(next.unloads.filter(({ node }) => left.has(node))).toEqual([]);
      if (next.nodes.length === plan.nodes.length) expect(next.loads).toEqual([]);
    }),
    { numRuns: 150 },
  );
  expect(borne).toBeGreaterThan(50);
});

test("of few streams no packing takes fewer nodes than the least, and most take just those", () => {
  let [equal, all] = [0, 0];
  fc.assert(
    fc.property(streams(6), (given) => {
      const light = given.map((stream) => ({ ...stream, rate: stream.rate / 20 }));
      const plan = pack(light);
      if (plan.unplaced.length > 0 || plan.nodes.some(({ isDedicated }) => isDedicated)) return;
      const least = leastNodes(light);
      expect(plan.nodes.length).toBeGreaterThanOrEqual(least);
      all++;
      if (plan.nodes.length === least) equal++;
    }),
    { numRuns: 80, seed: 4 },
  );
  expect(equal / all).toBeGreaterThan(0.8);
});

test("the baseline gives executors by throughput alone", () => {
  expect(batchOblivious(streamsAt([400, 300, 200]), 8)).toEqual([3, 3, 2]);
  expect(batchOblivious(streamsAt([400, 1, 1]), 4)).toEqual([4, 1, 1]);
});

test("1,000 streams are packed within a second", () => {
  const given = Array.from({ length: 1000 }, (_, id): Stream => {
    return {
      id,
      slo: 50 + (id % 17) * 10,
      rate: 0.01 + (id % 23) * 0.01,
      latency: affine(0.5 + (id % 5) * 0.2, 2 + (id % 7)),
      memory: 1,
    };
  });
  const start = process.cpuUsage();
  const plan = pack(given, { memory: 64 });
  const { user, system } = process.cpuUsage(start);
  expectSound(plan, given, 64);
  expect((user + system) / 1e6).toBeLessThan(10); // a second on a quiet machine
});
