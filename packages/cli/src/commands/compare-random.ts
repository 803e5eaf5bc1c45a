import { type ComparedMix, compareMix, policyNamed, randomMix, randomMixOfParts } from "@tutti/simulator";
import { renderTable, usageError } from "@tutti/admin";
import { whole } from "@tutti/sim-report/scenarios";
import { checkOutput, typedCommand, writeOutput } from "../present/output-file.ts";
import { Progress } from "../simulate/progress.ts";
import { Sweep } from "../simulate/sweep.ts";

export interface CompareRandomOptions {
  readonly random: string;
  readonly seed?: string;
  readonly rivals?: string;
  readonly parts?: boolean;
  readonly json?: boolean;
  readonly html?: string;
}

/**
 * Rivals without a parameter to be fitted, but `capped`, which fits its own. Those that come first are seldom beaten by
 * the rest, which are then tried at one rate only.
 */
const RIVALS =
  "eager,deferred,beta-lambda,timeout:20%,latest,eager-least-latest,clockwork,shepherd,nexus,triton,clipper,orloj,capped";
/** Rivals on mixes of models that leave part of an accelerator idle; the first never divides accelerators. */
const RIVALS_ON_PARTS = "default:whole,fractions,eager,deferred,nexus";
const MIXES_MAX = 10_000;

/** `tutti compare --random 50`: the default policy beside the best of its rivals, on mixes that nobody chose. */
export async function compareRandom(path: string | undefined, options: CompareRandomOptions): Promise<void> {
  if (path !== undefined) throw usageError(`--random draws its own mixes: leave ${path} out`);
  const mixes = whole("--random", options.random, { min: 1, max: MIXES_MAX });
  const seed = whole("--seed", options.seed ?? "1000", { min: 0, max: 0xffff_ffff - MIXES_MAX });
  const rivals = [
    ...new Set(
      (options.rivals ?? (options.parts === true ? RIVALS_ON_PARTS : RIVALS)).split(",").map((policy) => policy.trim()),
    ),
  ];
  for (const rival of rivals) checkRival(rival);
  checkOutput(options.html);
  await using sweep = new Sweep();
  const progress = new Progress();
  let done = 0;
  const draw = options.parts === true ? randomMixOfParts : randomMix;
  const waiting = Array.from({ length: mixes }, (_, i) => draw(seed + i));
  const judged: ComparedMix[] = [];
  const judgeNext = async (): Promise<void> => {
    for (let mix = waiting.shift(); mix !== undefined; mix = waiting.shift()) {
      judged.push(await compareMix(mix, rivals, sweep));
      progress.update({ done: ++done, total: mixes, note: `seed ${mix.seed}` });
    }
  };
  try {
    // The searches of one mix follow one another: as many mixes at once as there are cores.
    await Promise.all(Array.from({ length: sweep.workers }, judgeNext));
  } finally {
    progress.end();
  }
  judged.sort((a, b) => a.seed - b.seed);
  if (options.html !== undefined) {
    const { mixesPage } = await import("@tutti/sim-report");
    writeOutput(options.html, mixesPage({ mixes: judged, rivals, source: typedCommand() }));
  }
  process.stdout.write(options.json === true ? `${JSON.stringify(judged)}\n` : textOf(judged));
}

function checkRival(rival: string): void {
  try {
    policyNamed(rival);
  } catch (error) {
    throw usageError(`--rivals: ${(error as Error).message}`);
  }
}

function textOf(mixes: readonly ComparedMix[]): string {
  const rows = mixes.map((mix) => [
    String(mix.seed),
    String(mix.gpus),
    String(mix.models),
    mix.arrivals,
    mix.goodputRps.toFixed(0),
    `${mix.rivalRps.toFixed(0)} (${mix.rival})`,
    ratio(mix.goodputRps, mix.rivalRps),
    ratio(mix.goodputRps, mix.nonPreemptiveRps),
    ratio(mix.goodputRps, mix.boundRps),
    mix.badLeast.toFixed(0),
  ]);
  const head = [
    "seed",
    "gpus",
    "models",
    "arrivals",
    "default r/s",
    "best rival r/s",
    "÷ rival",
    "÷ non-preemptive",
    "÷ clairvoyant",
    "1 % is",
  ];
  const line = (name: string, values: number[]): string =>
    `${name}  worst ${at(values, 0)}, a tenth below ${at(values, 0.1)}, median ${at(values, 0.5)}, best ${at(values, 1)}`;
  return [
    renderTable(head, rows),
    "",
    line(
      "default ÷ best rival          ",
      mixes.map((mix) => mix.goodputRps / mix.rivalRps),
    ),
    line(
      "default ÷ non-preemptive bound",
      mixes.map((mix) => mix.goodputRps / mix.nonPreemptiveRps),
    ),
    line(
      "default ÷ clairvoyant bound   ",
      mixes.map((mix) => mix.goodputRps / mix.boundRps),
    ),
    "",
  ].join("\n");
}

const ratio = (a: number, b: number): string => (b > 0 ? (a / b).toFixed(3) : "–");

/** A quantile of the finite values, by nearest rank. */
function at(values: readonly number[], quantile: number): string {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return "–";
  return sorted[Math.round(quantile * (sorted.length - 1))]!.toFixed(3);
}
