import { expect, test } from "vitest";
import { type LinearProgram, TryingSolver } from "./index.ts";

/** A knapsack: worth 6, 5 and 4 at weights 3, 2 and 2. */
const knapsack = (room: number, atLeast = 0): LinearProgram => ({
  columns: [6, 5, 4].map((worth) => ({ cost: -worth, lower: 0, upper: 1, isInteger: true })),
  rows: [
    { lower: -Infinity, upper: room, terms: [3, 2, 2].map((weight, column) => [column, weight] as const) },
    { lower: atLeast, upper: Infinity, terms: [0, 1, 2].map((column) => [column, 1] as const) },
  ],
});

test("the best of all solutions is found, and where there is none that is said", async () => {
  const solver = new TryingSolver();
  expect(await solver.solve(knapsack(5))).toEqual({ status: "optimal", objective: -11, values: [1, 1, 0] });
  expect(await solver.solve(knapsack(4))).toEqual({ status: "optimal", objective: -9, values: [0, 1, 1] });
  expect(await solver.solve(knapsack(4, 3))).toEqual({ status: "infeasible" });
});

test("a programme with more solutions than can be tried is refused", () => {
  const column = { cost: 1, lower: 0, upper: 1, isInteger: true };
  const many = { columns: Array.from({ length: 30 }, () => column), rows: [] };
  const real = { columns: [{ ...column, isInteger: false }], rows: [] };
  for (const program of [many, real])
    expect(() => new TryingSolver().solve(program)).toThrow("more solutions than can be tried");
});
