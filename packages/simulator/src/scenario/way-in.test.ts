import { type Instant, micros } from "@tutti/units";
import { expect, test } from "vitest";
import { simulate } from "../run.ts";
import { NO_DELAYS, smallScenario } from "../testing/small-scenario.ts";
import { WayIn } from "./way-in.ts";

const heard = (network: { readonly arrive?: number; readonly gather?: number; readonly jitter?: number }) => {
  const { arrive = 0, gather = 0, jitter = 0 } = network;
  const way = new WayIn({ ...NO_DELAYS, arrive: micros(arrive), gather: micros(gather), jitter });
  return (...moments: readonly number[]): number[] => moments.map((at) => way.heardAt(at as Instant));
};

test("requests that are gathered leave together, and one that comes after a pause leaves at once", () => {
  expect(heard({ gather: 1_000 })(100, 150, 1_099, 1_100, 1_101, 2_100, 5_000, 5_001)).toEqual([
    100, 1_100, 1_100, 1_100, 2_100, 2_100, 5_000, 6_000,
  ]);
});

test("the way takes its longest time, from when requests leave", () => {
  expect(heard({ arrive: 200, jitter: 0.5 })(0, 10)).toEqual([300, 310]);
  expect(heard({ arrive: 200, gather: 1_000 })(0, 10)).toEqual([200, 1_200]);
});

test("what is gathered makes larger batches, and whoever asks waits longer", () => {
  const scenario = smallScenario({ policy: "default", rate: 3_500 });
  const run = (gather: number) => simulate({ ...scenario, network: { ...NO_DELAYS, gather: micros(gather) } });
  const [alone, gathered] = [run(0), run(2_000)];
  expect(gathered.batchSize.mean).toBeGreaterThan(1.1 * alone.batchSize.mean);
  expect(gathered.models[0]!.p50Ms).toBeGreaterThan(alone.models[0]!.p50Ms! + 1);
});

test("a way that takes no time changes nothing", () => {
  const scenario = smallScenario({ policy: "default" });
  const none = { ...NO_DELAYS, arrive: micros(0), gather: micros(0) };
  expect(simulate({ ...scenario, network: none })).toEqual(simulate(scenario));
});
