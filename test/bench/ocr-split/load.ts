/** Loads of pictures for a pipeline, in open and in closed loops, published to the ingress as by any client. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Tutti, tensor } from "@tutti/client";
import { OCR_PIPELINE_FOLDER } from "@tutti/pipeline-ocr/folder";
import { TuttiError } from "@tutti/protocol";
import type { Prng } from "@tutti/units";

export interface Offered {
  readonly offered: number;
  readonly inTime: number;
  readonly late: number;
  /** Refusals by stage and code: `recognise TUTTI_OVERLOADED`. */
  readonly refused: Readonly<Record<string, number>>;
  /** Latencies of the answers, in ms. */
  readonly latencies: readonly number[];
  /** How late the generator itself sent, p99 in ms. */
  readonly lagMs: number;
}

export const readPicture = async (name: string): Promise<Uint8Array> =>
  new Uint8Array(await readFile(join(OCR_PIPELINE_FOLDER, "fixtures", name)));
const inputsOf = (picture: Uint8Array) => ({ image: tensor(picture, [picture.length], "UINT8") });

/** Poisson arrivals, in seconds from the beginning. */
export function drawArrivals(prng: Prng, rate: number, seconds: number): number[] {
  const at: number[] = [];
  for (let t = prng.nextExponential(rate); t < seconds; t += prng.nextExponential(rate)) at.push(t);
  return at;
}

interface Asked {
  readonly pipeline: string;
  readonly picture: Uint8Array;
}

/** Open loop: requests leave when they are due, whatever became of earlier ones. */
export async function offer(
  client: Tutti,
  { pipeline, picture, sloMs, at }: Asked & { readonly sloMs: number; readonly at: readonly number[] },
): Promise<Offered> {
  const begin = performance.now() + 50;
  const refused: Record<string, number> = {};
  const lags: number[] = [];
  const latencies: number[] = [];
  const answers: Promise<void>[] = [];
  for (const due of at) {
    const dueMs = begin + due * 1000;
    const wait = dueMs - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const sentMs = performance.now();
    lags.push(sentMs - dueMs);
    const answer = client.infer(pipeline, inputsOf(picture), { slo: sloMs });
    answers.push(
      answer.then(
        () => void latencies.push(performance.now() - sentMs),
        (error: unknown) => {
          const cause = causeOf(error);
          refused[cause] = (refused[cause] ?? 0) + 1;
        },
      ),
    );
  }
  await Promise.all(answers);
  lags.sort((a, b) => a - b);
  const inTime = latencies.filter((one) => one <= sloMs).length;
  return {
    ...{ offered: at.length, inTime, late: latencies.length - inTime, refused, latencies },
    lagMs: lags[Math.floor(0.99 * lags.length)] ?? 0,
  };
}

function causeOf(error: unknown): string {
  if (!(error instanceof TuttiError)) return String(error);
  const stage = /\b(detect|classify|recognise)\b/.exec(error.message)?.[1];
  return stage === undefined ? error.code : `${stage} ${error.code}`;
}

const LOOPS = 4;
const ALONE = 5;
const MEASURE_MS = 8_000;
const PATIENT_MS = 60_000;

/** The latency of pictures one after the other, and the rate that four loops reach once they are warm. */
export async function capacityOf(
  client: Tutti,
  { pipeline, picture }: Asked,
): Promise<{ readonly rps: number; readonly aloneMs: number }> {
  const ask = (): Promise<unknown> => client.infer(pipeline, inputsOf(picture), { slo: PATIENT_MS });
  await ask();
  const times: number[] = [];
  for (let i = 0; i < ALONE; i++) {
    const begin = performance.now();
    await ask();
    times.push(performance.now() - begin);
  }
  const begin = performance.now();
  const end = begin + MEASURE_MS;
  let answered = 0;
  await Promise.all(
    Array.from({ length: LOOPS }, async () => {
      for (; performance.now() < end; answered++) await ask();
    }),
  );
  times.sort((a, b) => a - b);
  return { rps: answered / ((performance.now() - begin) / 1000), aloneMs: times[Math.floor(ALONE / 2)]! };
}
