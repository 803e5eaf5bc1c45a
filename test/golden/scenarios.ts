/** Small scenarios whose decision logs are stored beside this file: `<name>.jsonl`. */
import { LatencyTable } from "@tutti/profile";
import type { Scenario, ScenarioModel } from "@tutti/simulator";
import { type Micros, micros, millis } from "@tutti/units";

const affine = (alphaMs: number, betaMs: number): LatencyTable =>
  LatencyTable.affine({ alpha: 1000 * alphaMs, beta: 1000 * betaMs, batchSizeMax: 64 });

const model = (name: string, share: number, changes: Partial<ScenarioModel> = {}): ScenarioModel => ({
  name,
  profile: affine(1.053, 5.072),
  slo: millis(25),
  classes: [],
  share,
  ...changes,
});

const base: Scenario = {
  seed: 1,
  duration: millis(60),
  warmup: micros(0),
  gpus: 8,
  policy: "deferred",
  gather: "target",
  prefer: "accelerators",
  rate: 5000,
  arrivals: { process: "poisson" },
  network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
  models: [model("resnet50", 1)],
  phases: [],
};

/**
 * docs/algorithms.md, A10.1: R_i at 0.75(i−1) ms, l(b) = b + 5 ms, SLO 12 ms, 3 accelerators; A10.2 leaves out R13 to
 * R15.
 */
const paper = (left: readonly number[]): Scenario => {
  const numbers = Array.from({ length: 43 }, (_, i) => i + 1).filter((i) => !left.includes(i));
  const entries = numbers.map((i) => ({
    at: micros(750 * (i - 1)),
    model: "m",
    app: "paper",
    slo: undefined as Micros | undefined,
  }));
  const models = [model("m", 1, { profile: affine(1, 5), slo: millis(12) })];
  return { ...base, gpus: 3, gather: "head", rate: 0, models, arrivals: { process: "trace", entries } };
};

/** Three models of different profiles and SLOs, one with two SLO classes, bursty, over a network with delays. */
const mixed: Scenario = {
  ...base,
  seed: 7,
  gpus: 4,
  rate: 1500,
  duration: millis(150),
  arrivals: { process: "gamma", shape: 0.3 },
  network: { ctrl: micros(200), data: micros(30), respond: micros(400), jitter: 0.1 },
  models: [
    model("resnet50", 0.6, { classes: [{ slo: millis(100), share: 0.5 }] }),
    model("inception", 0.1, { profile: affine(5.09, 18.368), slo: millis(70) }),
    model("small", 0.3, { profile: affine(0.2, 1.5), slo: millis(10) }),
  ],
  phases: [{ from: millis(75), factor: 1.5, shares: [0.2, 0.2, 0.6] }],
};

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "paper-3.3": paper([]),
  "paper-3.3-gap": paper([13, 14, 15]),
  "paper-3.3-gap-eager": { ...paper([13, 14, 15]), policy: "eager" },
  "early-drop-overload": { ...base, gpus: 2, rate: 3000 },
  "head-overload": { ...base, gpus: 2, rate: 3000, gather: "head" },
  "timeout-uniform": { ...base, policy: "timeout:8ms", rate: 4000, arrivals: { process: "uniform" } },
  "mixed-deferred": mixed,
  "mixed-default": { ...mixed, policy: "default" },
};
