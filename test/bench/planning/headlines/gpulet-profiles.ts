/**
 * Synthetic profiles for gpulet's headlines. SLOs are the paper's (Table 4: twice the latency of an isolated batch of
 * 32, which is thereby known). The numbers are those of docs/algorithms.md, D6, with one more: `full`, the fraction of
 * an accelerator that a batch of 32 can fill. By the paper's throughputs, small models fill little (32 images of MNIST
 * in 2.5 ms). Its Figure 5 says by how much, on average: two accelerators in fractions carry 51 % more than whole ones
 * by greedy best-fit, and 23 % more than that by the best fixed split.
 *
 *   L(b, p) = β + α·b·full/min(p, full·min(1, σ·b)), so that a batch takes on `full` what D6 says of a whole
 *   accelerator, and a larger fraction doesn't help.
 */
import { type FractionModel, type InterferenceSample, SIZES, WHOLE, factorBeside, splitLatency } from "@tutti/planning";
import { D6_BATCH_MAX, D6_INTERFERENCE, D6_PROFILES } from "@tutti/planning/testing";
import { Prng } from "@tutti/units";
import type { TrueFactor } from "./node-runtime.ts";

export const FULL: Readonly<Record<string, number>> = {
  ...{ le: 0.2, be: 0.4, nas: 0.5, mob: 0.5, goo: 0.6 },
  ...{ res: 0.8, vgg: 1, ssd: 0.5, den: 0.6 },
};

/** @param id - index of the model in its workload @param rate - requests per ms */
export function gpuletModel(
  name: string,
  id: number,
  { rate = 1e-3, slo }: { rate?: number; slo?: number } = {},
): FractionModel {
  const { alpha, beta, sigma, u, v, slo: own } = D6_PROFILES.find((profile) => profile.name === name)!;
  const full = FULL[name]!;
  const bySize = new Map(
    SIZES.map((size) => [
      size,
      Float64Array.from(
        { length: D6_BATCH_MAX + 1 },
        (_, b) => beta + (alpha * b * full) / Math.min(size / WHOLE, full * Math.min(1, sigma * b)),
      ),
    ]),
  );
  return {
    ...{ id, rate, slo: slo ?? own, batchMax: D6_BATCH_MAX, cacheUse: u, bandwidthUse: v },
    latency: (b, size) => bySize.get(size)![b]!,
  };
}

export interface Workload {
  readonly name: string;
  readonly text: string;
  /** Models at one request per second each; the workload's rate is their sum. */
  readonly models: readonly FractionModel[];
}

const GAME_SLO = 108;
const TRAFFIC_SLO = 202;
const named = (names: readonly string[]): FractionModel[] => names.map((name, id) => gpuletModel(name, id));

/** §5.1: two applications and five scenarios (Table 5), models at equal rates. */
export function workloads(): Workload[] {
  const digits = Array.from({ length: 6 }, (_, id) => gpuletModel("le", id, { slo: GAME_SLO }));
  return [
    {
      name: "game",
      text: "six LeNet and ResNet50 side by side, 108 ms",
      models: [...digits, gpuletModel("res", 6, { slo: GAME_SLO })],
    },
    { name: "traffic", text: "SSD, then GoogLeNet and VGG-16, 202 ms together, split by C5", models: traffic() },
    { name: "scen1", text: "mob, be, nas, goo", models: named(["mob", "be", "nas", "goo"]) },
    { name: "scen2", text: "den, vgg", models: named(["den", "vgg"]) },
    { name: "scen3", text: "mob, res, vgg", models: named(["mob", "res", "vgg"]) },
    { name: "scen4", text: "ssd, nas, den", models: named(["ssd", "nas", "den"]) },
    { name: "scen5", text: "le, ssd, nas, vgg", models: named(["le", "ssd", "nas", "vgg"]) },
  ];
}

function traffic(): FractionModel[] {
  const names = ["ssd", "goo", "vgg"];
  const models = named(names);
  const batchSizes = Array.from({ length: D6_BATCH_MAX }, (_, i) => i + 1);
  const stages = models.map(({ latency }, i) => ({
    ...{ name: names[i]!, rate: 1e-3 },
    latency: { batchSizes, latency: (b: number) => (b > D6_BATCH_MAX ? Infinity : latency(b, WHOLE)) },
  }));
  const split = splitLatency({
    stages,
    edges: [
      ["ssd", "goo"],
      ["ssd", "vgg"],
    ],
    bound: TRAFFIC_SLO,
  })!;
  return names.map((name, id) => gpuletModel(name, id, { slo: split.stages[id]!.budget }));
}

/** Joint use of the memory bandwidth above which models slow one another more than linearly. */
const CROWDED = 0.4;
const BEND = 0.3;
/** Standard deviations of the noise: of a pair at a split, and of one run. */
const PAIR_NOISE = 0.04;
const RUN_NOISE = 0.04;

/** The true interference, which no planner knows exactly: D6's line, a bend, and noise peculiar to the pair. */
function trueFactor(own: Beside, other: Beside): number {
  const { model: m1, size: p1 } = own;
  const { model: m2, size: p2 } = other;
  const bandwidth = (m1.bandwidthUse * p1 + m2.bandwidthUse * p2) / WHOLE;
  const line = factorBeside(D6_INTERFERENCE, own, other) + BEND * Math.max(0, bandwidth - CROWDED);
  // The noise is the same for a pair of profiles, whatever workload they are in.
  const pair = [m1.cacheUse, m1.bandwidthUse, m2.cacheUse, m2.bandwidthUse, p1 / WHOLE].reduce(
    (sum, x) => 131 * sum + Math.round(100 * x),
    7,
  );
  return Math.max(1, line * Math.exp(PAIR_NOISE * new Prng(pair | 0).nextNormal()));
}
interface Beside {
  readonly model: FractionModel;
  readonly size: number;
}

/** Interference factors of a workload's models, cached. */
export function factorsOf(models: readonly FractionModel[]): TrueFactor {
  const known = new Map<string, number>();
  return (own, other) => {
    const key = `${own.model}/${own.size}/${other.model}`;
    let factor = known.get(key);
    if (factor === undefined) {
      factor = trueFactor(
        { model: models[own.model]!, size: own.size },
        { model: models[other.model]!, size: other.size },
      );
      known.set(key, factor);
    }
    return factor;
  };
}

const SAMPLED = ["goo", "le", "res", "ssd", "vgg"];
const BATCHES = [2, 4, 8, 16, 32];
const SPLITS = [20, 40, 50, 60, 80];

/**
 * §3.4 and §4.4: pairs of five models, five sizes of batches each, five splits: 1,250 pairs, 2,500 measurements.
 * Smaller batches use less.
 */
export function interferenceSamples(seed: number): InterferenceSample[] {
  const prng = new Prng(seed);
  const used = (model: FractionModel, batchSize: number): FractionModel => {
    const share = 0.6 + (0.4 * batchSize) / D6_BATCH_MAX;
    return { ...model, cacheUse: model.cacheUse * share, bandwidthUse: model.bandwidthUse * share };
  };
  const models = named(SAMPLED);
  const samples: InterferenceSample[] = [];
  const measureBeside = (own: Beside, other: Beside): void => {
    const [p1, p2] = [own.size / WHOLE, other.size / WHOLE];
    const { cacheUse: u1, bandwidthUse: v1 } = own.model;
    const { cacheUse: u2, bandwidthUse: v2 } = other.model;
    const factor = trueFactor(own, other) * Math.exp(RUN_NOISE * prng.nextNormal());
    samples.push({ uses: [u1 * p1, u2 * p2, v1 * p1, v2 * p2], factor });
  };
  for (const [i, a] of models.entries())
    for (const b of models.slice(i + 1))
      for (const size of SPLITS)
        for (const ofA of BATCHES)
          for (const ofB of BATCHES) {
            const first = { model: used(a, ofA), size };
            const second = { model: used(b, ofB), size: WHOLE - size };
            measureBeside(first, second);
            measureBeside(second, first);
          }
  return shuffled(samples, prng);
}

function shuffled<Value>(values: readonly Value[], prng: Prng): Value[] {
  const all = [...values];
  for (let i = all.length - 1; i > 0; i--) {
    const j = prng.nextInt(i + 1);
    [all[i], all[j]] = [all[j]!, all[i]!];
  }
  return all;
}
