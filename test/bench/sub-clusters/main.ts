/** `npm run bench:sub-clusters`: what dividing costs where an accelerator holds a part of the models only. */
import {
  type Scenario,
  type SubClusterSplit,
  boundOf,
  goodput,
  inSubClusters,
  policyNamed,
  randomMix,
  simulateDetailed,
} from "@tutti/simulator";
import { micros, seconds } from "@tutti/units";
import { readArguments } from "../arguments.ts";
import { asPlanned, byEstimate, byRate, byWork, memoryFor } from "./division.ts";

const HELP = `Usage: npm run bench:sub-clusters -- [options]

Goodput of random mixes (8 to 32 accelerators, 4 models or more) in sub-clusters, as a share of the undivided one:
  rate       models divided for even rates
  work       for even work
  planner    as the planner divides (docs/algorithms.md, E8)
  estimate   as is expected to carry most (D9), of all divisions

  --from 1000          first seed
  --to 1048            last seed
  --parts 2,3          2: an accelerator holds a half of the models, 3: a third
  --requests 80000     about so many in a run, of 6 s at least
  --help               this text
`;

const values = readArguments(HELP, {
  from: { type: "string", default: "1000" },
  to: { type: "string", default: "1048" },
  parts: { type: "string", default: "2,3" },
  requests: { type: "string", default: "80000" },
});
const parts = values.parts.split(",").map(Number);
const WAYS = { rate: byRate, work: byWork, planner: asPlanned, estimate: byEstimate };
const COLUMNS = parts.flatMap((part) =>
  Object.entries(WAYS).map(([name, split]) => ({ name: `${name} 1/${part}`, part, split })),
);

const DURATION_MIN = seconds(6);
const GPUS_MIN = 8;
const MODELS_MIN = 4;
const PRECISION = 0.02;

async function main(): Promise<void> {
  const found: (readonly number[])[] = [];
  row(["seed", "accelerators", "models", "undivided", ...COLUMNS.map(({ name }) => name)]);
  for (let seed = Number(values.from); seed <= Number(values.to); seed++) {
    const mix = randomMix(seed);
    if (mix.gpus < GPUS_MIN || mix.models.length < MODELS_MIN) continue;
    const { undivided, shares } = await sharesOf(mix);
    found.push(shares);
    row([seed, mix.gpus, mix.models.length, Math.round(undivided), ...shares.map((share) => share.toFixed(3))]);
  }
  for (const [i, { name }] of COLUMNS.entries()) {
    const sorted = found.map((shares) => shares[i]!).sort((a, b) => a - b);
    const mean = Math.exp(sorted.reduce((sum, share) => sum + Math.log(Math.max(1e-3, share)), 0) / sorted.length);
    const texts = { "geometric mean": mean, median: sorted[sorted.length >> 1]!, worst: sorted[0]! };
    row([name, ...Object.entries(texts).map(([text, share]) => `${text} ${share.toFixed(3)}`)]);
  }
}

/** Goodput of the mix, and of each division as a share of it, with the same arrivals. */
async function sharesOf(given: Scenario): Promise<{ undivided: number; shares: readonly number[] }> {
  const bound = boundOf(given);
  const wanted = (1e6 * Number(values.requests)) / bound.clairvoyantRps;
  const duration = micros(Math.round(Math.min(given.duration, Math.max(DURATION_MIN, wanted))));
  const mix = { ...given, duration };
  const carried = async (split?: SubClusterSplit): Promise<number> => {
    const options = split && { cluster: inSubClusters(split, policyNamed(mix.policy)) };
    const run = (trial: Scenario) => Promise.resolve(simulateDetailed(trial, options));
    return (await goodput(mix, run, { arrivalsMin: micros(0), bound, precision: PRECISION })).goodputRps;
  };
  const undivided = await carried();
  const shares: number[] = [];
  for (const { part, split } of COLUMNS)
    shares.push((await carried(split(mix, memoryFor(mix.models.length, part)))) / undivided);
  return { undivided, shares };
}

const row = (texts: readonly (string | number)[]): void => void process.stdout.write(`${texts.join("  ")}\n`);

await main();
