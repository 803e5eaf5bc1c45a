/**
 * `npm run bench:unlike-halves`: accelerators of two types that run whole or as halves, and what the default chooses.
 */
import {
  type AcceleratorType,
  BAD_LEAST,
  BAD_RATE_MAX,
  type Scenario,
  highestGoodRate,
  randomMixOfParts,
  simulateDetailed,
} from "@tutti/simulator";
import { micros, seconds } from "@tutti/units";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:unlike-halves -- [options]

Goodput of random mixes on a third of their accelerators, and two thirds that take 2, 3 or 4 times as long: whole, all as
halves, and as the default divides (docs/algorithms.md, D9), with the requests that 1 % is.

  --from 7201          first seed
  --to 7240            last seed
  --arrivals 9001      seed of the arrivals
  --help               this text
`;

const values = readArguments(HELP, {
  from: { type: "string", default: "7201" },
  to: { type: "string", default: "7240" },
  arrivals: { type: "string", default: "9001" },
});

const POLICIES = ["default:whole", "default:halves", "default"];
const DURATION_MIN = seconds(20);
const DURATION_MAX = seconds(600);
const PRECISION = 0.02;
const TELLING_LEAST = 20;

async function main(): Promise<void> {
  const ratios: number[] = [];
  row(["seed", "accelerators", "times", "arrivals", "whole", "halves", "default", "÷ whole", "1 % is", "as halves"]);
  for (let seed = Number(values.from); seed <= Number(values.to); seed++) {
    const { mix, types } = scenarioOf(seed);
    const { found, divided, told } = await compare({ ...mix, seed: Number(values.arrivals), types });
    const [whole, , ours] = found as [number, number, number];
    const ratio = whole > 0 ? ours / whole : NaN;
    if (told >= TELLING_LEAST && whole > 0) ratios.push(ratio);
    const rates = found.map((rate) => rate.toFixed(0));
    const counts = types.map(({ gpus }) => gpus).join("+");
    row([seed, counts, types[1]!.times, mix.arrivals.process, ...rates, ratio.toFixed(3), told, divided.join(" and ")]);
  }
  ratios.sort((a, b) => a - b);
  const mean = Math.exp(ratios.reduce((sum, one) => sum + Math.log(one), 0) / ratios.length);
  const of = `of ${ratios.length} where 1 % is ${TELLING_LEAST} requests or more`;
  row([
    `default ÷ whole, ${of}: worst ${ratios[0]!.toFixed(3)}, geometric mean ${mean.toFixed(3)}, best ${ratios.at(-1)!.toFixed(3)}`,
  ]);
}

function scenarioOf(seed: number): { mix: Scenario; types: readonly AcceleratorType[] } {
  const mix = randomMixOfParts(seed);
  const fast = Math.max(1, Math.round(mix.gpus / 3));
  const types = [
    { name: "fast", gpus: fast, times: 1 },
    { name: "slow", gpus: mix.gpus - fast, times: 2 + (seed % 3) },
  ];
  return { mix, types };
}

/** Goodputs by policy, on the same arrivals. */
async function compare(
  given: Scenario,
): Promise<{ found: readonly number[]; divided: readonly string[]; told: number }> {
  const [at] = given.models.map(({ share }) => share).sort((a, b) => a - b);
  const short = { ...given, duration: seconds(2), rate: 1, policy: "default" };
  const division = simulateDetailed(short).result.division;
  const { types: divided = [], wholeRps = 1, halvesRps = 1 } = division ?? {};
  const expected = Math.max(1, wholeRps, divided.length > 0 ? halvesRps : 0);
  const needed = (1.2 * 1e6 * BAD_LEAST) / BAD_RATE_MAX / (at! * expected);
  const judged = micros(Math.round(Math.min(DURATION_MAX, Math.max(DURATION_MIN, needed))));
  const found: number[] = [];
  for (const policy of POLICIES) {
    const mix = { ...given, policy, duration: micros(given.warmup + judged) };
    const attempt = (rate: number): Promise<{ rateRps: number; good: boolean }> => {
      const { streams } = simulateDetailed({ ...mix, rate });
      return Promise.resolve({
        rateRps: rate,
        good: streams.every(({ offered, bad }) => bad <= BAD_RATE_MAX * offered),
      });
    };
    const search = {
      first: expected,
      firstStep: 1.15,
      least: expected / 1000,
      most: 1000 * expected,
      precision: PRECISION,
    };
    found.push((await highestGoodRate(attempt, search)).good?.rateRps ?? 0);
  }
  return { found, divided, told: Math.round((BAD_RATE_MAX * at! * judged * found[2]!) / 1e6) };
}

const row = (texts: readonly (string | number)[]): void => void process.stdout.write(`${texts.join("  ")}\n`);

await main();
