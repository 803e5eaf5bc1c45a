import fc from "fast-check";
import { expect, test } from "vitest";
import { LatencyTable } from "@tutti/profile";
import { micros } from "@tutti/units";
import { latencyOnPart } from "./part-latency.ts";
import { launchOf, usableSizes } from "./part-launch.ts";

const cpu = (count: number, hasTaskset = true) => ({
  provider: "cpu" as const,
  cores: Array.from({ length: count }, (_, i) => i),
  hasTaskset,
});
const cuda = { provider: "cuda" as const, cores: [0, 1], hasTaskset: true };

test("the sizes of a CPU's parts are so many cores", () => {
  expect(usableSizes(cpu(1))).toEqual([100]);
  expect(usableSizes(cpu(2))).toEqual([50, 100]);
  expect(usableSizes(cpu(3))).toEqual([33, 67, 100]);
  expect(usableSizes(cpu(4))).toEqual([25, 50, 75, 100]);
  expect(usableSizes(cuda)).toEqual([20, 40, 50, 60, 80, 100]);
  expect(usableSizes({ provider: "webgpu", cores: [0] })).toEqual([100]);
});

test("two parts have all the cores together and share none, whatever the split", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 64 }), fc.nat(), (count, choice) => {
      const machine = cpu(count);
      const sizes = usableSizes(machine).filter((size) => size < 100);
      const size = sizes[choice % sizes.length]!;
      const [one, other] = [launchOf({ size, place: 0 }, machine), launchOf({ size: 100 - size, place: 1 }, machine)];
      expect([...one.cores, ...other.cores]).toEqual(machine.cores);
      expect([one.threads, other.threads]).toEqual([one.cores.length, other.cores.length]);
      expect(one.threads).toBeGreaterThan(0);
    }),
  );
});

test("a CPU's part is bound to its cores where taskset is there, and has as many threads in any case", () => {
  expect(launchOf({ size: 75, place: 1 }, cpu(4))).toEqual({
    ...{ prefix: ["taskset", "-c", "1,2,3"], env: {}, threads: 3 },
    cores: [1, 2, 3],
  });
  expect(launchOf({ size: 25, place: 0 }, cpu(4, false))).toMatchObject({ prefix: [], threads: 1 });
  expect(launchOf({ size: 100, place: 0 }, cpu(2))).toMatchObject({ prefix: ["taskset", "-c", "0,1"], threads: 2 });
});

test("on NVIDIA the environment carries the share of the multiprocessors, and a whole accelerator's none", () => {
  const share = { CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "40" };
  expect(launchOf({ size: 40, place: 0 }, cuda)).toEqual({ prefix: [], env: share, threads: 1, cores: [] });
  expect(launchOf({ size: 100, place: 0 }, cuda).env).toEqual({});
});

test("what can't be split is refused by saying what can", () => {
  expect(() => launchOf({ size: 20, place: 0 }, cpu(2))).toThrow("2 cores can be split into 50, 100 %");
  expect(() => launchOf({ size: 50, place: 0 }, { ...cuda, provider: "webgpu" })).toThrow("webgpu");
});

test("an emulated part takes as long as the whole for what a batch costs whatever its size, and 1/p of the rest", () => {
  const table = LatencyTable.fromPoints([
    { batchSize: 1, latency: micros(5_000) },
    { batchSize: 8, latency: micros(12_000) },
  ]);
  expect([1, 4, 8].map((batchSize) => latencyOnPart(table, batchSize, 50))).toEqual([6_000, 12_000, 20_000]);
  expect([1, 4, 8].map((batchSize) => latencyOnPart(table, batchSize, 100))).toEqual([5_000, 8_000, 12_000]);
  const lone = LatencyTable.fromPoints([{ batchSize: 1, latency: micros(5_000) }]);
  expect(latencyOnPart(lone, 1, 20)).toBe(25_000);
});

test("small batches that leave half of an emulated accelerator idle take as long on a half (D6)", () => {
  // be of D6: β 3, α 0.25 ms, and a request fills a tenth of an accelerator.
  const whole = (b: number): number => 3_000 + (250 * b) / Math.min(1, 0.1 * b);
  const onPart = (b: number, p: number): number => 3_000 + (250 * b) / Math.min(p, 0.1 * b);
  const points = Array.from({ length: 32 }, (_, i) => ({ batchSize: i + 1, latency: micros(whole(i + 1)) }));
  const table = LatencyTable.fromPoints(points);
  for (const b of [1, 4, 5, 6, 10, 11, 32])
    for (const p of [20, 50, 80]) expect(latencyOnPart(table, b, p)).toBe(Math.ceil(onPart(b, p / 100)));
});
