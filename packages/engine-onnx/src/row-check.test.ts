import type { ModelSpec, Tensor } from "@tutti/protocol";
import { Prng, millis } from "@tutti/units";
import { expect, test, vi } from "vitest";
import { rowInfluence } from "./row-check.ts";
import type { Row } from "./row-pairs.ts";
import { valuesOf } from "./tensor-types.ts";

const WIDTH = 4;
const specOf = (more: Partial<ModelSpec> = {}): ModelSpec =>
  ({
    ...{ name: "m", buckets: [{}], batchSizeMax: 4, axes: {} },
    inputs: [{ name: "x", type: "FP32", dims: ["batch", WIDTH] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", WIDTH] }],
    ...more,
  }) as unknown as ModelSpec;

type Compute = (x: Float32Array, rows: number, run: number) => Float32Array;

/** Tries a model that computes this. @returns what is found, and the number of rows in each run */
async function tried(
  compute: Compute,
  { spec = specOf(), file = "", samples }: { spec?: ModelSpec; file?: string; samples?: readonly Row[] } = {},
) {
  const runs: number[] = [];
  const bytes = Buffer.from(file, "latin1");
  const problem = await rowInfluence(
    { spec, bytes, provider: "cpu", ...(samples && { samples }) },
    async ([x], rows): Promise<Tensor[]> => {
      runs.push(rows);
      const given = new Float32Array(x!.data.buffer, x!.data.byteOffset, x!.data.byteLength / 4);
      const values = compute(given, rows, runs.length);
      return [{ name: "y", type: "FP32", dims: [rows, values.length / rows], data: new Uint8Array(values.buffer) }];
    },
  );
  return { problem, runs };
}

/** Adds a share of the other row to each one. */
const leaking =
  (share: number): Compute =>
  (x, rows) =>
    x.map((value, i) => value + (rows === 2 ? share * x[(i + WIDTH) % x.length]! : 0));

test("rows that don't influence each other cost three runs, and a model of one row at a time none", async () => {
  const doubled: Compute = (x) => x.map((value) => 2 * value);
  expect(await tried(doubled)).toEqual({ problem: undefined, runs: [1, 1, 2] });
  expect(await tried(leaking(1), { spec: specOf({ batchSizeMax: 1 }) })).toEqual({ problem: undefined, runs: [] });
});

test("a thousandth of the largest value is rounding; more is named with the output and what to write", async () => {
  expect((await tried(leaking(3e-4))).problem).toBeUndefined();
  const { problem, runs } = await tried(leaking(0.5));
  expect(problem).toMatch(
    /output 'y' of a row differs by 0\.\d+ of its largest value.*in config.yaml `max_batch_size: 1`/,
  );
  // Three pairs, and the first row of each again: a model that samples isn't refused. Then another row beside it.
  expect(runs).toEqual([1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 2]);
});

test("where a row by itself gives zeros, the difference is told without a share of them", async () => {
  const { problem } = await tried((x, rows) => (rows === 2 ? x : x.map(() => 0)));
  expect(problem).toMatch(/of a row differs by more than its largest value from what/);
});

test("half floats and quantized numbers in the file allow more rounding, not any difference", async () => {
  const half = "\x0a\x02to\x18\x0a\xa0\x01\x02";
  for (const [file, share] of [
    [half, 0.005],
    ["DynamicQuantizeLinear", 0.05],
  ] as const) {
    expect((await tried(leaking(share))).problem).toBeDefined();
    expect((await tried(leaking(share), { file })).problem).toBeUndefined();
    expect((await tried(leaking(0.9), { file })).problem).toBeDefined();
  }
});

test("a difference in one pair of three is a near tie, which rounding swaps", async () => {
  const first: Compute = (x, rows, run) => x.map((value) => (rows === 2 && run < 4 ? -value : value));
  expect(await tried(first)).toEqual({ problem: undefined, runs: [1, 1, 2, 1, 1, 1, 2] });
});

test("a model that answers the same row in two ways isn't refused for it", async () => {
  const prng = new Prng(7);
  expect((await tried((x) => x.map((value) => value + prng.nextFloat()))).problem).toBeUndefined();
});

/** Adds so much to each row when two run, whatever the rows are, where this holds for a value of the first. */
const rounding =
  (where: (value: number) => boolean): Compute =>
  (x, rows) =>
    x.map((value, i) => value + (rows === 2 && where(x[i % WIDTH]!) ? 0.5 : 0));

test("what doesn't come from the neighbour is a suspicion, which rows of a second kind confirm or not", async () => {
  const always = await tried(rounding(() => true));
  expect(always.problem).toMatch("rows of a batch influence each other");
  expect(always.runs).toHaveLength(2 * 13);
  const mostly = await tried(rounding((value) => value < 0));
  expect(mostly.problem).toBeUndefined();
});

test("integers are drawn over their range, and as 0 or 1 where that fails, as ids outside a table do", async () => {
  const wide = { type: "INT32", dims: ["batch", 32] } as const;
  for (const [type, dims, least, most] of [
    ["INT32", wide.dims, 0, 255],
    ["UINT8", ["batch", 32], 0, 255],
    ["INT8", ["batch", 32], -128, 127],
    ["INT64", ["batch", 4], 0, 1], // may be a shape
  ] as const) {
    const spec = specOf({ inputs: [{ name: "x", type, dims }] });
    for (const fails of [false, true]) {
      const seen: number[] = [];
      const run = async ([x]: readonly Tensor[], rows: number): Promise<Tensor[]> => {
        const values = Array.from(valuesOf(x!), Number);
        if (fails && values.some((value) => value < 0 || value > 1)) throw new Error("no such index");
        seen.push(...values);
        return [{ name: "y", type: "FP32", dims: [rows, WIDTH], data: new Uint8Array(rows * WIDTH * 4) }];
      };
      expect(await rowInfluence({ spec, bytes: new Uint8Array(), provider: "cpu" }, run)).toBeUndefined();
      const [from, to] = [Math.min(...seen), Math.max(...seen)];
      if (fails || most === 1) expect([from, to]).toEqual([0, 1]);
      else expect([from <= least + 40, from >= least, to <= most, to >= most - 40]).toEqual([true, true, true, true]);
    }
  }
});

test("on a GPU, where an index outside its table may end the process, all integers are 0 or 1", async () => {
  const inputs = ["FP32", "INT32", "UINT8"].map((type) => ({ name: type, type, dims: ["batch", 32] }));
  const spec = specOf({ inputs } as unknown as Partial<ModelSpec>);
  const floats: number[] = [];
  const integers: number[] = [];
  const run = async ([x, ...ids]: readonly Tensor[], rows: number): Promise<Tensor[]> => {
    floats.push(Array.from(valuesOf(x!), Number).reduce((least, value) => Math.min(least, value)));
    integers.push(...ids.flatMap((id) => Array.from(valuesOf(id), Number)));
    const values = new Float32Array(rows * WIDTH).fill(rows); // a suspicion: rows of a second kind are tried
    return [{ name: "y", type: "FP32", dims: [rows, WIDTH], data: new Uint8Array(values.buffer) }];
  };
  const problem = await rowInfluence({ spec, bytes: new Uint8Array(), provider: "cuda" }, run);
  expect(problem).toMatch("rows of a batch influence each other");
  expect(new Set(integers)).toEqual(new Set([0, 1]));
  const [first, second] = [floats.slice(0, 13), floats.slice(13)];
  expect([Math.max(...first) < 0, second.length, Math.min(...second) >= 0]).toEqual([true, 13, true]);
});

test("real rows judge before drawn ones", async () => {
  const spec = specOf();
  const samples = [7, 8, 9].map((value): Tensor[] => {
    return [
      { name: "x", type: "FP32", dims: [1, WIDTH], data: new Uint8Array(new Float32Array(WIDTH).fill(value).buffer) },
    ];
  });
  // A model that draws attention to its neighbour for drawn rows alone.
  const compute: Compute = (x, rows) => x.map((value) => value + (rows === 2 && value < 7 ? 1 : 0));
  expect((await tried(compute, { spec })).problem).toBeDefined();
  const real = await tried(compute, { spec, samples });
  expect(real).toEqual({ problem: undefined, runs: [1, 1, 2] });
});

test("an operator who knows better overrules the check, which names how", async () => {
  expect((await tried(leaking(1))).problem).toContain("`independent_rows: true`");
  const spec = specOf({ independentRows: true });
  expect(await tried(leaking(1), { spec })).toEqual({ problem: undefined, runs: [] });
});

test("a model with a loop isn't tried, nor further where one row takes long; a deadline for runs says nothing", async () => {
  expect((await tried(leaking(1), { file: "\x22\x04Loop" })).runs).toEqual([]);
  expect((await tried(leaking(1), { spec: specOf({ runDeadline: millis(1) }) })).problem).toBeDefined();
  const now = vi.spyOn(process.hrtime, "bigint").mockReturnValueOnce(0n).mockReturnValueOnce(501_000_000n);
  expect((await tried(leaking(1))).runs).toEqual([1, 1]);
  now.mockRestore();
});

test("what the longest row lengthens is judged by what is a row's own; folded rows are found by a run", async () => {
  const longer: Compute = (x, rows) =>
    rows === 1
      ? x
      : Float32Array.from({ length: 2 * (WIDTH + 1) }, (_, i) => x[Math.floor(i / 5) * WIDTH + (i % 5)] ?? 0);
  expect((await tried(longer)).problem).toBeUndefined();
  const spec = specOf();
  const folded = async ([x]: readonly Tensor[]): Promise<Tensor[]> => [{ ...x!, name: "y", dims: [1, WIDTH] }];
  expect(await rowInfluence({ spec, bytes: new Uint8Array(), provider: "cpu" }, folded)).toBeUndefined();
});
