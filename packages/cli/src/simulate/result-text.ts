/** Results of simulations for people; `--json` has all of it. */
import type { ModelResult, Scenario, SimulationResult } from "@tutti/simulator";
import { renderTable } from "../table.ts";

/** Of a zoo, those that fare worst. */
const MODELS_SHOWN_MAX = 12;

export function renderResult(scenario: Scenario, result: SimulationResult): string {
  const { gpu, batchSize, queueDelayMs } = result;
  const lines = [
    `${result.policy}: ${settingOf(scenario)}`,
    "",
    `  offered   ${count(result.offeredRps)} r/s`,
    `  good      ${count(result.goodRps)} r/s, ${percent(result.badRate)} bad`,
    `  busy      ${percent(gpu.busyFraction)}, ${gpu.used} of ${gpu.count} accelerators used`,
    `  batches   mean ${fixed(batchSize.mean)}, p50 ${batchSize.p50}, p99 ${batchSize.p99}`,
    `  queueing  p50 ${ms(queueDelayMs.p50)}, p99 ${ms(queueDelayMs.p99)}`,
    "",
    renderModels(result.models),
  ];
  return lines.join("\n");
}

/** `8 accelerators, 1 model, gamma 0.1 arrivals, 20 s with 1 s of warm-up, seed 1`. */
export function settingOf({ gpus, models, arrivals, duration, warmup, seed }: Scenario): string {
  const process = arrivals.process === "gamma" ? `gamma ${arrivals.shape}` : arrivals.process;
  const counted = models.length === 1 ? "1 model" : `${models.length} models`;
  const time = `${duration / 1e6} s with ${warmup / 1e6} s of warm-up`;
  return `${gpus} accelerators, ${counted}, ${process} arrivals, ${time}, seed ${seed}`;
}

function renderModels(models: readonly ModelResult[]): string {
  const isCut = models.length > MODELS_SHOWN_MAX;
  const worstFirst = isCut ? models.toSorted((a, b) => b.badRate - a.badRate) : models;
  const rows = worstFirst
    .slice(0, MODELS_SHOWN_MAX)
    .map((model) => [
      model.name,
      count(model.offeredRps),
      count(model.goodRps),
      percent(model.badRate),
      ms(model.p50Ms),
      ms(model.p99Ms),
      fixed(model.batchMean),
    ]);
  const table = renderTable(["model", "offered r/s", "good r/s", "bad", "p50", "p99", "batch"], rows);
  return isCut ? `${table}\nand ${models.length - MODELS_SHOWN_MAX} models with fewer bad requests` : table;
}

/** A policy's run beside others on the same arrivals. */
export interface ComparedRun {
  readonly policy: string;
  readonly result: SimulationResult;
  /** Where it was asked for: the highest rate at which every model has at most 1 % bad requests. */
  readonly goodputRps?: number;
  /** Of goodput where there is one, of good requests else: 1 for the best. */
  readonly ratioToBest: number;
}

export function renderComparison(runs: readonly ComparedRun[]): string {
  const searched = runs.some(({ goodputRps }) => goodputRps !== undefined);
  const headings = ["policy", ...(searched ? ["goodput r/s"] : []), "of the best", "good r/s", "bad", "worst model"];
  const rows = runs.map(({ policy, goodputRps, ratioToBest, result }) => [
    policy,
    ...(searched ? [goodputRps === undefined ? "-" : count(goodputRps)] : []),
    ratioToBest.toFixed(3),
    count(result.goodRps),
    percent(result.badRate),
    percent(Math.max(...result.models.map(({ badRate }) => badRate))),
    fixed(result.batchSize.mean),
    ms(result.queueDelayMs.p99),
    percent(result.gpu.busyFraction),
    String(result.gpu.used),
  ]);
  return renderTable([...headings, "batch", "queueing p99", "busy", "used"], rows);
}

const count = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 1 : 0 });
const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
const fixed = (value: number): string => value.toFixed(1);
const ms = (value: number | null): string => (value === null ? "refused" : `${value.toFixed(1)} ms`);
