import { expect, test } from "vitest";
import { measure, servedLoad } from "./single.ts";
import { measureThreaded } from "./threads.ts";
import { boundOf, drawArrivals } from "./workload.ts";

const shape = { models: 12, gpus: 40 };
const run = (threads: number, seed: number) =>
  measureThreaded({ shape, threads, perMicro: 0.75 * boundOf(shape), requests: 30_000, seed });

test("the decisions do not depend on the number of threads that the models are spread over (A11)", async () => {
  const one = await run(1, 1);
  expect(one.servedShare).toBeGreaterThan(0.98);
  expect(one.meanBatch).toBeGreaterThan(4);
  for (const threads of [2, 3]) {
    const { decisions, servedShare } = await run(threads, 1);
    expect({ decisions, servedShare }).toEqual({ decisions: one.decisions, servedShare: one.servedShare });
  }
  expect((await run(1, 2)).decisions).not.toBe(one.decisions);
});

test("a benchmark measures a load that is served, at no less than a tenth of the aimed rate", () => {
  const large = { models: 100, gpus: 1000 };
  const perMicro = servedLoad(large, 1);
  const arrivals = drawArrivals(large, perMicro, 200_000, 2);
  const { servedShare, requestsPerCpuSecond } = measure(large, arrivals);
  expect(servedShare).toBeGreaterThan(0.99);
  expect(requestsPerCpuSecond).toBeGreaterThan(70_000);
});
