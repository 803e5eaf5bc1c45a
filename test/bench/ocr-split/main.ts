/**
 * The OCR pipeline on real executors near its capacity. It measures how many pictures are read in time when the SLO is
 * planned over the stages, and when it is divided evenly. One system serves both as pipelines of their own. Each round
 * offers the same pictures at the same moments to one and then to the other, in random order, so that a machine that
 * grows slower does so for both.
 */
import { connect } from "@tutti/client";
import { Prng } from "@tutti/units";
import { RunningSystem } from "../system/running-system.ts";
import { type Offered, capacityOf, drawArrivals, offer, readPicture } from "./load.ts";
import { type OcrSplitResult, type Round, renderOcrSplit } from "./ocr-split-text.ts";
import { SPLITS, type Split, gainsOf, pipelineNamed, requestsByModel, stagesOf, writeHome } from "./setting.ts";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:ocr-split -- [options]

  --slo 1200              of the whole, in ms
  --load 0.9              offered, as a share of the pictures a second that closed loops read
  --rate <r/s>            instead: pictures a second
  --seconds 10            of arrivals in a round, for each of the two
  --rounds 8
  --executors 1
  --picture upside-down-line.png     of packages/pipeline-ocr/fixtures
  --seed 1                of the arrivals and of the order
  --json                  print JSON
  --help                  this text
`;

const values = readArguments(HELP, {
  slo: { type: "string", default: "1200" },
  load: { type: "string", default: "0.9" },
  rate: { type: "string" },
  seconds: { type: "string", default: "10" },
  rounds: { type: "string", default: "8" },
  executors: { type: "string", default: "1" },
  picture: { type: "string", default: "upside-down-line.png" },
  seed: { type: "string", default: "1" },
  json: { type: "boolean", default: false },
});
/** Time at the beginning that doesn't count: fan-outs and functions' times are measured, in epochs of 5 s each. */
const WARM_UP_S = 6;

async function main(): Promise<void> {
  const sloMs = numberOf("slo");
  const home = await writeHome(sloMs);
  const args = ["--no-demo", "--models", home.models, "--pipelines", home.pipelines, "--patience", "0"];
  const system = await RunningSystem.start([...args, "--executors", values.executors]);
  const client = await connect({ servers: system.url, app: "bench" });
  try {
    const picture = await readPicture(values.picture);
    const offerTo = (split: Split, at: readonly number[]): Promise<Offered> =>
      offer(client, { pipeline: pipelineNamed(split), picture, sloMs, at });
    say("measuring what closed loops read");
    const capacity = await capacityOf(client, { pipeline: pipelineNamed("planned"), picture });
    const rate = values.rate === undefined ? capacity.rps * numberOf("load") : numberOf("rate");
    say(
      `${capacity.rps.toFixed(1)} pictures a second, ${capacity.aloneMs.toFixed(0)} ms alone; offering ${rate.toFixed(1)}`,
    );
    const prng = new Prng(numberOf("seed"));
    for (const split of SPLITS) await offerTo(split, drawArrivals(prng, rate * 0.7, WARM_UP_S));
    const { outcomes: rounds, during } = await system.watch(() => alternate(prng, rate, offerTo));
    const requests = requestsByModel(during);
    const result: OcrSplitResult = {
      ...{ sloMs, rate, rounds, executors: numberOf("executors"), picture: values.picture },
      capacityRps: capacity.rps,
      aloneMs: capacity.aloneMs,
      stages: await stagesOf(home, system.url, requests),
      gains: await gainsOf(system.url),
    };
    process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : renderOcrSplit(result));
  } finally {
    await client.close();
    await system.stop();
    await home.remove();
  }
}

type OfferTo = (split: Split, at: readonly number[]) => Promise<Offered>;

async function alternate(prng: Prng, rate: number, offerTo: OfferTo): Promise<Round[]> {
  const rounds: Round[] = [];
  for (let round = 1; round <= numberOf("rounds"); round++) {
    const at = drawArrivals(prng, rate, numberOf("seconds"));
    const order = prng.nextFloat() < 0.5 ? SPLITS : SPLITS.toReversed();
    const offered = new Map<Split, Offered>();
    for (const split of order) offered.set(split, await offerTo(split, at));
    rounds.push({ first: order[0], planned: offered.get("planned")!, even: offered.get("even")! });
    const shown = SPLITS.map((split) => `${split} ${offered.get(split)!.inTime}`);
    say(`round ${round} of ${values.rounds}: of ${at.length} in time: ${shown.join(", ")}`);
  }
  return rounds;
}

const say = (text: string): void => void process.stderr.write(`${text}\n`);
function numberOf(name: "slo" | "load" | "rate" | "seconds" | "rounds" | "executors" | "seed"): number {
  const value = Number(values[name]);
  if (value > 0 && Number.isFinite(value)) return value;
  process.stderr.write(`bench:ocr-split: --${name} ${values[name]} is no number above 0\n`);
  process.exit(2);
}

await main();
