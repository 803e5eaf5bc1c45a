import type { Tensor } from "@tutti/protocol";
import { expect, test } from "vitest";
import { rowAxes } from "./index.ts";

const floats = (name: string, dims: number[], values: number[]): Tensor => ({
  ...{ name, type: "FP32", dims },
  data: new Uint8Array(Float32Array.from(values).buffer),
});

test("the rows' axis is the one that follows the batch; values that mix rows, fold them or have none can't cross", async () => {
  const { axes, uncuttable } = await rowAxes(async (rows) => {
    const n = rows.length;
    return [
      floats(
        "first",
        [n, 2],
        rows.flatMap((row) => [row, -row]),
      ),
      floats("second", [2, n], [...rows, ...rows.map((row) => -row)]),
      floats(
        "folded",
        [2 * n],
        rows.flatMap((row) => [row, row]),
      ),
      floats(
        "mixed",
        [n],
        rows.map(() => rows.reduce((a, b) => a + b, 0) + 1),
      ),
      floats("table", [3], [1, 2, 3]),
    ];
  }, 3);
  expect([...axes]).toEqual([
    ["first", 0],
    ["second", 1],
  ]);
  expect(uncuttable).toEqual(["folded", "mixed", "table"]);
});
