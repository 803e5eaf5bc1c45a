import fc from "fast-check";
import { LatencyTable } from "@tutti/profile";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { policyNamed } from "../cluster/policies.ts";
import { simulate } from "../run.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";
import type { Load } from "./nexus-plan.ts";
import { wholeAccelerators } from "./whole-accelerators.ts";

const profile = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 64 });
const load = (rate: number): Load => ({ profile, limit: 60_000, rate });

test("accelerators go with rates over best throughputs, and none is shared while there are enough", () => {
  expect(wholeAccelerators([load(6), load(1), load(1)], 8)).toEqual([
    { loads: [0], gpus: 6 },
    { loads: [1], gpus: 1 },
    { loads: [2], gpus: 1 },
  ]);
  // The slower model needs more of them for the same rate: 25 in 30 ms against 12 in 29 ms.
  const slow = { ...load(1), profile: LatencyTable.affine({ alpha: 2000, beta: 5000, batchSizeMax: 64 }) };
  expect(wholeAccelerators([load(2), slow], 6).map(({ gpus }) => gpus)).toEqual([3, 3]);
});

test("more models than accelerators: a large one keeps its own, small ones share the rest by weight", () => {
  const groups = wholeAccelerators([load(10), load(4), load(3), load(2), load(1)], 4);
  expect(groups).toEqual([
    { loads: [0], gpus: 2 },
    { loads: [1, 4], gpus: 1 },
    { loads: [2, 3], gpus: 1 },
  ]);
});

test("every accelerator is in one group and every load in one, whatever the rates", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 31), (seed) => {
      const prng = new Prng(seed);
      const loads = Array.from({ length: 1 + prng.nextInt(30) }, () => load(prng.nextFloat() ** 4));
      const gpus = 1 + prng.nextInt(24);
      const groups = wholeAccelerators(loads, gpus);
      expect(groups.reduce((sum, group) => sum + group.gpus, 0)).toBe(gpus);
      expect(groups.flatMap((group) => group.loads).toSorted((a, b) => a - b)).toEqual(loads.map((_, i) => i));
      expect(Math.min(...groups.map((group) => group.gpus))).toBeGreaterThan(0);
    }),
    { numRuns: 200 },
  );
});

test("nexus:oblivious runs each model on accelerators of its own, and takes what else nexus takes", () => {
  const models = [model("a", 0.5), model("b", 0.5)];
  const seen = new Map<number, Set<number>>();
  const listener = {
    dispatched: ({ gpu, model: which }: { gpu: number; model: number }) =>
      void seen.set(gpu, (seen.get(gpu) ?? new Set()).add(which)),
    refused: () => undefined,
    finished: () => undefined,
  };
  simulate(smallScenario({ gpus: 4, models, policy: "nexus:2,oblivious,lazy" }), { listener });
  expect([...seen].toSorted(([a], [b]) => a - b).map(([, which]) => [...which])).toEqual([[0], [0], [1], [1]]);
  expect(() => policyNamed("nexus:oblivous")).toThrow("a whole number");
  expect(() => policyNamed("nexus:")).toThrow("a whole number");
});
