import { fileURLToPath } from "node:url";
import { DYNAMIC_FIGURES, FIGURES, FULL, type Bench, type Point } from "@tutti/sim-report/figures";
import type { Goodput, MinGpus } from "@tutti/simulator";
import { expect, test } from "vitest";
import { readScenario } from "@tutti/sim-report/scenarios";
import { figures } from "./figures.ts";

const SCENARIOS = fileURLToPath(new URL("../../../../test/bench/scenarios", import.meta.url));

/** A bench that records the requested points, and answers well enough for figures that search. */
function listeningBench(asked: Point[]): Bench {
  const bound = { staggeredRps: 1, uncoordinatedRps: 1, clairvoyantRps: 1 };
  const each = <T>(answer: T) => {
    return (points: readonly Point[]): Promise<readonly T[]> => {
      asked.push(...points);
      return Promise.resolve(points.map(() => answer));
    };
  };
  return {
    goodput: each<Goodput>({ goodputRps: 0, worstModelBadRate: 1, bound, trials: [] }),
    minGpus: each<MinGpus>({ minGpus: undefined, worstModelBadRate: 1, bound, trials: [] }),
    simulate: (points) => {
      asked.push(...points);
      return Promise.reject(new Error("heard"));
    },
    record: () => Promise.resolve([]),
    compareMixes: () => Promise.reject(new Error("heard")),
    planned: (points) => {
      asked.push(...points);
      return Promise.reject(new Error("heard"));
    },
  };
}

test("every point of every figure is a scenario that is shipped, with axes and labels that it has", async () => {
  const asked: Point[] = [];
  for (const figure of [...FIGURES, ...DYNAMIC_FIGURES]) {
    await figure.draw(listeningBench(asked), FULL).catch((error: Error) => expect(error.message).toBe("heard"));
  }
  expect(new Set(asked.map(({ file }) => file)).size).toBeGreaterThan(14);
  const seen = new Set<string>();
  for (const { file, set = {}, policy } of asked) {
    // Each label of each axis and each policy once: the grid alone has a thousand points.
    const parts = [file, policy, ...Object.entries(set).map(([axis, label]) => `${file} ${axis}=${label}`)];
    if (parts.every((part) => seen.has(part))) continue;
    for (const part of parts) seen.add(part);
    const scenario = await readScenario(`${SCENARIOS}/${file}.yaml`, { choice: set, overrides: { policy } });
    expect(scenario.policy).toBe(policy);
  }
});

test("a folder that can't be made is said before anything is drawn", async () => {
  const out = process.platform === "linux" ? "/proc/self/tutti/figures" : "/dev/null/figures";
  await expect(figures({ out, only: "timeouts" })).rejects.toThrow(`--out ${out} can't be made: E`);
});

test("a wrong name of a figure is answered with the names that there are", async () => {
  await expect(figures({ out: "unused", only: "slo,nonsense" })).rejects.toThrow(
    /no figure 'nonsense'; there are goodput, batch-sizes/,
  );
});
