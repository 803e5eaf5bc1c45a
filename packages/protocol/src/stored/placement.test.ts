import fc from "fast-check";
import { expect, test } from "vitest";
import { MODELS_MAX } from "../limits.ts";
import { isPlacement } from "./placement.ts";

const GOOD = {
  epoch: 3,
  madeAt: 1_790_000_000_000_000,
  models: [
    { number: 1, subCluster: "main" },
    { number: 2, subCluster: "main", next: "s1" },
  ],
  gpus: [
    { gpu: 0, subCluster: "main" },
    { gpu: 7, subCluster: "s1" },
  ],
};

test("a placement is read as the planner writes it, an empty one too", () => {
  expect(isPlacement(GOOD)).toBe(true);
  expect(isPlacement(JSON.parse(JSON.stringify(GOOD)))).toBe(true);
  expect(isPlacement({ epoch: 0, madeAt: 0, models: [], gpus: [] })).toBe(true);
});

test("a placement has parked models where there are some", () => {
  const parked = [
    { number: 1, since: 1_790_000_000_000_000 },
    { number: 9, since: 0, next: "main" },
  ];
  expect(isPlacement({ ...GOOD, parked })).toBe(true);
});

const MODEL = GOOD.models[0]!;
const GPU = GOOD.gpus[0]!;
const PARKED = { number: 1, since: 5 };
const BAD: readonly [string, Readonly<Record<string, unknown>>][] = [
  ["no epoch", { epoch: undefined }],
  ["an epoch below zero", { epoch: -1 }],
  ["half an epoch", { epoch: 1.5 }],
  ["a moment in words", { madeAt: "now" }],
  ["no list of models", { models: { 0: MODEL } }],
  ["something else than a model", { models: [null] }],
  ["a model twice", { models: [MODEL, { ...MODEL, subCluster: "s1" }] }],
  ["a model whose number no thread can have", { models: [{ ...MODEL, number: 2 ** 25 }] }],
  ["a model without a sub-cluster", { models: [{ number: 1 }] }],
  ["a sub-cluster that is no name", { models: [{ ...MODEL, subCluster: "a.b" }] }],
  ["a name that is too long", { models: [{ ...MODEL, subCluster: "a".repeat(65) }] }],
  ["a model that goes where it is", { models: [{ ...MODEL, next: "main" }] }],
  ["a model that goes nowhere", { models: [{ ...MODEL, next: "" }] }],
  [
    "more models than a cluster has",
    { models: Array.from({ length: MODELS_MAX + 1 }, (_, i) => ({ ...MODEL, number: i })) },
  ],
  ["an accelerator twice", { gpus: [GPU, { ...GPU, subCluster: "s1" }] }],
  ["an accelerator beyond all ids", { gpus: [{ ...GPU, gpu: 65_536 }] }],
  ["a parked model twice", { parked: [PARKED, PARKED] }],
  ["a parked model since never", { parked: [{ number: 1 }] }],
  ["a parked model that goes nowhere", { parked: [{ ...PARKED, next: "" }] }],
  [
    "more parked models than a cluster has",
    { parked: Array.from({ length: MODELS_MAX + 1 }, (_, i) => ({ ...PARKED, number: i })) },
  ],
  ["an accelerator of no sub-cluster", { gpus: [{ gpu: 1, subCluster: 7 }] }],
];

test("anything else is no placement (T8)", () => {
  for (const value of [undefined, null, 7, "placement", [], {}]) expect(isPlacement(value), String(value)).toBe(false);
  for (const [what, change] of BAD) expect(isPlacement({ ...GOOD, ...change }), what).toBe(false);
});

test("whatever JSON stands in the store, it is judged and never thrown over (T8)", () => {
  const lists = fc.record({ epoch: fc.nat(), madeAt: fc.nat(), models: fc.jsonValue(), gpus: fc.jsonValue() });
  fc.assert(fc.property(fc.oneof(fc.jsonValue(), lists), (value) => typeof isPlacement(value) === "boolean"));
});
