/** The comparison as text. */
import type { Offered } from "./load.ts";
import { type Gain, SPLITS, type Split, type StageShown } from "./setting.ts";

export interface Round {
  readonly first: Split;
  readonly planned: Offered;
  readonly even: Offered;
}

export interface OcrSplitResult {
  readonly sloMs: number;
  readonly rate: number;
  readonly capacityRps: number;
  readonly aloneMs: number;
  readonly executors: number;
  readonly picture: string;
  readonly rounds: readonly Round[];
  readonly stages: readonly StageShown[];
  readonly gains: readonly Gain[];
}

export interface Summed extends Omit<Offered, "latencies" | "lagMs"> {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly lagMs: number;
}

export function summed(all: readonly Offered[]): Summed {
  const refused: Record<string, number> = {};
  for (const one of all)
    for (const [cause, count] of Object.entries(one.refused)) refused[cause] = (refused[cause] ?? 0) + count;
  const latencies = all.flatMap((one) => one.latencies).toSorted((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(share * latencies.length)] ?? Number.NaN;
  const total = (value: (one: Offered) => number): number => all.reduce((sum, one) => sum + value(one), 0);
  return {
    offered: total(({ offered }) => offered),
    inTime: total(({ inTime }) => inTime),
    late: total(({ late }) => late),
    refused,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    lagMs: Math.max(0, ...all.map(({ lagMs }) => lagMs)),
  };
}

/**
 * Difference in good rate (planned less even) over the rounds: mean, and the standard error of that mean. Rounds offer
 * both the same arrivals, so that differences between rounds don't count.
 */
export function differenceOf(rounds: readonly Round[]): { readonly mean: number; readonly error: number } {
  const differences = rounds.map(({ planned, even }) => planned.inTime / planned.offered - even.inTime / even.offered);
  const mean = differences.reduce((sum, one) => sum + one, 0) / differences.length;
  const variance = differences.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, differences.length - 1);
  return { mean, error: Math.sqrt(variance / differences.length) };
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

export function renderOcrSplit(result: OcrSplitResult): string {
  const { sloMs, rate, capacityRps, aloneMs, executors, picture, rounds, stages, gains } = result;
  const lines = [
    `${picture}, SLO ${sloMs} ms, ${executors} executor${executors === 1 ? "" : "s"}: ${rate.toFixed(1)} pictures a second offered, Poisson; closed loops read ${capacityRps.toFixed(1)}; alone ${ms(aloneMs)}`,
    "",
  ];
  for (const split of SPLITS) {
    const { offered, inTime, late, refused, p50Ms, p99Ms, lagMs } = summed(rounds.map((round) => round[split]));
    const causes = Object.entries(refused).toSorted(([a], [b]) => a.localeCompare(b));
    const text = causes.length === 0 ? "none" : causes.map(([cause, count]) => `${cause} ${count}`).join(", ");
    lines.push(
      `${split.padEnd(8)} ${percent(inTime / offered)} of ${offered} in time, ${late} late, refused ${text}; answers p50 ${ms(p50Ms)}, p99 ${ms(p99Ms)}; sent late by p99 ${ms(lagMs)}`,
    );
  }
  const { mean, error } = differenceOf(rounds);
  lines.push(
    `planned − even: ${(100 * mean).toFixed(1)} ± ${(100 * error).toFixed(1)} points over ${rounds.length} rounds`,
    "",
    "stage      requests  l(1)      until, planned  until, even  room beside l(1)",
  );
  for (const { stage, requests, aloneMs: alone } of stages.filter(({ pipeline }) => pipeline.endsWith(SPLITS[0]))) {
    const [planned, even] = SPLITS.map((split) => spanOf(stages, `ocr-${split}`, stage));
    lines.push(
      `${stage.padEnd(10)} ${requests.toFixed(2).padEnd(9)} ${ms(alone).padEnd(9)} ${ms(planned!.untilMs).padEnd(15)} ${ms(even!.untilMs).padEnd(12)} ${ms(planned!.budgetMs - alone)}, ${ms(even!.budgetMs - alone)}`,
    );
  }
  const shown = gains.map(
    ({ model, bucket, batchSize, aloneMs: alone, share }) =>
      `${model}/${bucket} ${ms(alone)} alone, ${share.toFixed(2)} each in ${batchSize}`,
  );
  lines.push("", `profiles: ${shown.join("; ")}`);
  return `${lines.join("\n")}\n`;
}

/** Time span of a stage: stages follow one another, so each begins at the end of the one before. */
function spanOf(stages: readonly StageShown[], pipeline: string, stage: string): { untilMs: number; budgetMs: number } {
  const own = stages.filter((one) => one.pipeline === pipeline);
  const place = own.findIndex((one) => one.stage === stage);
  return { untilMs: own[place]!.untilMs, budgetMs: own[place]!.untilMs - (own[place - 1]?.untilMs ?? 0) };
}
