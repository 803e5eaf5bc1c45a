/** Text of simulation results; `--json` has all of them. */
import {
  BAD_RATE_MAX,
  type DivisionResult,
  type ModelResult,
  type PipelineResult,
  type PlannerResult,
  type Scenario,
  type SimulationResult,
  type SubClusterResult,
} from "@tutti/simulator";
import { renderTable } from "@tutti/admin";

/** Number of models shown for a zoo, those with the most bad requests first. */
const MODELS_SHOWN_MAX = 12;
const APPS_SHOWN_MAX = 32;

export function renderResult(scenario: Scenario, result: SimulationResult): string {
  const { gpu, batchSize, queueDelayMs } = result;
  const divided = subClusterText(result.subClusters);
  const lines = [
    `${result.policy}: ${settingOf(scenario)}`,
    "",
    `  offered   ${count(result.offeredRps)} r/s`,
    `  good      ${count(result.goodRps)} r/s, ${percent(result.badRate)} bad`,
    ...costLines(result.cost),
    `  busy      ${percent(gpu.busyFraction)}, ${gpu.used} of ${plural(gpu.count, "accelerator")} used`,
    ...jobLines(result),
    ...plannerLines(result.planner),
    ...divisionLines(result.division),
    ...(divided === undefined ? [] : [`  divided   ${divided}`]),
    `  batches   mean ${fixed(batchSize.mean)}, p50 ${batchSize.p50}, p99 ${batchSize.p99}`,
    `  queueing  p50 ${ms(queueDelayMs.p50)}, p99 ${ms(queueDelayMs.p99)}`,
    "",
    renderModels(result.models),
    ...renderApps(result.models),
    ...renderPipelines(result.pipelines),
  ];
  return lines.join("\n");
}

function costLines(cost: SimulationResult["cost"]): string[] {
  return cost === undefined ? [] : [`  cost      ${cost.mean.toFixed(4)} a request, ${count(cost.total)} in all`];
}

function jobLines({ jobs, models }: SimulationResult): string[] {
  if (jobs === undefined) return [];
  const { busyFraction, usedFraction, runMaxMs, loads, without } = jobs;
  const rates = loads.map(({ name, rps, batchMean, isTooLong }) =>
    isTooLong ? `no ${name} (one takes longer)` : `${count(rps)} ${name}/s in batches of ${fixed(batchMean)}`,
  );
  const lines = [
    `  jobs      ${percent(busyFraction)} of the time, in runs of ${fixed(runMaxMs)} ms at most: ${rates.join(", ")}`,
  ];
  if (without === undefined) return lines;
  const ratios = models.map(({ p99Ms }, i) => (p99Ms ?? Infinity) / (without.p99Ms[i] ?? Infinity)).filter(isFinite);
  const p99 = ratios.length === 0 ? "" : `, p99 ${Math.max(...ratios).toFixed(2)} times at most`;
  const bad = `${percent(without.badRate)} bad without jobs`;
  return [
    ...lines,
    `  used      ${percent(usedFraction)}, ${percent(without.busyFraction)} without jobs; ${bad}${p99}`,
  ];
}

function plannerLines(planner: PlannerResult | undefined): string[] {
  if (planner === undefined || planner.windows.length === 0) return [];
  const gpus = planner.windows.map((window) => window.gpus);
  const over = planner.windows.filter(({ badRate }) => badRate > BAD_RATE_MAX).length;
  return [
    `  planner   ${fixed(planner.gpusMean)} accelerators on average, ${fixed(Math.min(...gpus))} to ${fixed(Math.max(...gpus))}`,
    `  epochs    ${over} of ${planner.windows.length} with over 1 % bad`,
  ];
}

function divisionLines(division: DivisionResult | undefined): string[] {
  if (division === undefined) return [];
  const { kind, types, wholeRps, halvesRps, waitsOnWhole } = division;
  const because = waitsOnWhole === null ? "" : ` (then ${waitsOnWhole} waits for too long)`;
  const which = types === undefined ? "each" : `each ${types.join(" and ")}`;
  const how = kind === "halves" ? `${which} as two halves` : "whole, not halved";
  return [
    `  division  ${how}: halves are expected to carry ${count(halvesRps)} r/s, whole ones ${count(wholeRps)}${because}`,
  ];
}

/** Why fewer sub-clusters are used than are asked for, and what those that are used cost. */
export function subClusterText(found: SubClusterResult | undefined): string | undefined {
  if (found?.dividedRps === undefined || found.undividedRps === undefined) return undefined;
  const { asked, used, dividedRps, undividedRps } = found;
  const expected = `${asked} sub-clusters are expected to carry ${count(dividedRps)} r/s, one ${count(undividedRps)}`;
  const how = used < asked ? `refused, ${used} used: ` : "";
  const advice = used < asked ? ` (subClustersMin: ${asked} divides all the same)` : "";
  return `${how}${expected}${advice}`;
}

/** `8 accelerators, 1 model, gamma 0.1 arrivals, 20 s with 1 s of warm-up, seed 1`. */
export function settingOf({
  gpus,
  types,
  models,
  pipelines,
  arrivals,
  duration,
  warmup,
  seed,
  planner,
  subClusters = 1,
}: Scenario): string {
  const process = "shape" in arrivals ? `${arrivals.process} ${arrivals.shape}` : arrivals.process;
  const ofPipelines = pipelines === undefined ? "" : `${plural(pipelines.length, "pipeline")} of `;
  const counted = `${ofPipelines}${plural(models.length, "model")}`;
  const time = `${Math.round(duration / 1e3) / 1e3} s with ${warmup / 1e6} s of warm-up`;
  const most = planner === undefined ? "" : "at most ";
  const split = subClusters === 1 ? "" : ` in ${subClusters} sub-clusters`;
  const kinds = types === undefined ? "" : ` (${types.map((one) => `${one.gpus} ${one.name}`).join(", ")})`;
  return `${most}${plural(gpus, "accelerator")}${kinds}${split}, ${counted}, ${process} arrivals, ${time}, seed ${seed}`;
}

function renderModels(models: readonly ModelResult[]): string {
  const isCut = models.length > MODELS_SHOWN_MAX;
  const worstFirst = isCut ? models.toSorted((a, b) => b.badRate - a.badRate) : models;
  const hasCosts = models.some(({ cost }) => cost !== undefined);
  const rows = worstFirst
    .slice(0, MODELS_SHOWN_MAX)
    .map((model) => [
      model.name,
      count(model.offeredRps),
      count(model.goodRps),
      percent(model.badRate),
      ...(hasCosts ? [costText(model.cost)] : []),
      ms(model.p50Ms),
      ms(model.p99Ms),
      fixed(model.batchMean),
    ]);
  const table = renderTable(
    ["model", "offered r/s", "good r/s", "bad", ...(hasCosts ? ["cost"] : []), "p50", "p99", "batch"],
    rows,
  );
  return isCut ? `${table}\nand ${models.length - MODELS_SHOWN_MAX} models with fewer bad requests` : table;
}

/** The applications of dynamic models. */
function renderApps(models: readonly ModelResult[]): string[] {
  const hasCosts = models.some(({ apps = [] }) => apps.some(({ cost }) => cost !== undefined));
  const rows = models.flatMap(({ name, apps = [] }) =>
    apps.map((app) => [
      ...[name, app.name, count(app.offeredRps), count(app.goodRps), percent(app.finishRate)],
      ...(hasCosts ? [costText(app.cost)] : []),
    ]),
  );
  if (rows.length === 0) return [];
  const shown = rows.slice(0, APPS_SHOWN_MAX);
  const headings = ["model", "application", "offered r/s", "good r/s", "finished", ...(hasCosts ? ["cost"] : [])];
  const rest = rows.length - shown.length;
  const more = rest > 0 ? [`and ${rest} applications more`] : [];
  return ["", renderTable(headings, shown), ...more];
}

/** The results of whole pipelines; the models' table counts requests of stages. */
function renderPipelines(pipelines: readonly PipelineResult[] | undefined): string[] {
  if (pipelines === undefined) return [];
  const rows = pipelines.map((one) => {
    const worst = one.refusedAt.toSorted((a, b) => b.share - a.share)[0];
    const where = worst === undefined || worst.share === 0 ? "-" : `${worst.stage}, ${percent(worst.share)}`;
    const rates = [count(one.offeredRps), count(one.goodRps), percent(one.badRate)];
    return [one.name, ...rates, ms(one.p50Ms), ms(one.p99Ms), where];
  });
  return ["", renderTable(["pipeline", "offered r/s", "good r/s", "bad", "p50", "p99", "refused most by"], rows)];
}

/** One policy's run, compared with others on the same arrivals. */
export interface ComparedRun {
  readonly policy: string;
  readonly result: SimulationResult;
  /** The highest rate at which every model has at most 1 % bad requests; absent: not searched for. */
  readonly goodputRps?: number;
  /** Goodput relative to the best, or the good rate where goodput is absent: 1 for the best. */
  readonly ratioToBest: number;
}

export function renderComparison(runs: readonly ComparedRun[]): string {
  const searched = runs.some(({ goodputRps }) => goodputRps !== undefined);
  const hasCosts = runs.some(({ result }) => result.cost !== undefined);
  const headings = [
    ...["policy", ...(searched ? ["goodput r/s"] : []), "of the best", "good r/s", "bad", "worst model"],
    ...(hasCosts ? ["cost"] : []),
  ];
  const rows = runs.map(({ policy, goodputRps, ratioToBest, result }) => [
    policy,
    ...(searched ? [goodputRps === undefined ? "-" : count(goodputRps)] : []),
    ratioToBest.toFixed(3),
    count(result.goodRps),
    percent(result.badRate),
    percent(Math.max(...(result.pipelines ?? result.models).map(({ badRate }) => badRate))),
    ...(hasCosts ? [costText(result.cost)] : []),
    fixed(result.batchSize.mean),
    ms(result.queueDelayMs.p99),
    percent(result.gpu.busyFraction),
    String(result.gpu.used),
  ]);
  return renderTable([...headings, "batch", "queueing p99", "busy", "used"], rows);
}

const costText = (cost: SimulationResult["cost"]): string => (cost === undefined ? "-" : cost.mean.toFixed(4));
const plural = (count: number, what: string): string => (count === 1 ? `1 ${what}` : `${count} ${what}s`);
const count = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 1 : 0 });
const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
const fixed = (value: number): string => value.toFixed(1);
const ms = (value: number | null): string => (value === null ? "refused" : `${value.toFixed(1)} ms`);
