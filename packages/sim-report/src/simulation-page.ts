import type { ModelResult, Scenario, SimulationResult } from "@tutti/simulator";
import { batchSizeChart, busyChart, queueDelayChart, rateChart } from "./charts/recording-charts.ts";
import { type TimelineData, chartBox, escapeHtml, htmlPage, htmlTable, number, percent } from "./html.ts";
import { colourOf } from "./palette.ts";
import { REFUSAL_CAUSES, type TimelineRecording } from "./timeline-recorder.ts";

export interface SimulationPageOptions {
  readonly scenario: Scenario;
  readonly result: SimulationResult;
  readonly recording: TimelineRecording;
  /** Origin of the run, such as the command; shown under the title. */
  readonly source?: string;
}

/**
 * A run as one HTML document that needs no network: summary, accelerator timeline, distributions and rates over time.
 * About 1.2 MB, of which 1.1 MB is the plotting library, and 30 bytes for each batch.
 */
export function simulationPage({ scenario, result, recording, source }: SimulationPageOptions): string {
  const durationS = scenario.duration / 1e6;
  const windowS = (scenario.duration - scenario.warmup) / 1e6;
  const body = [
    `<h1>${escapeHtml(result.policy)}: ${number(result.goodRps)} good requests per second on ${scenario.gpus} accelerators</h1>`,
    `<p class="note">${escapeHtml(describe(scenario))}</p>`,
    source === undefined ? "" : `<p class="note"><code>${escapeHtml(source)}</code></p>`,
    tiles(result),
    "<h2>Accelerators</h2>",
    `<p class="note">A bar is a batch, its number the batch size, its colour the model; a dashed one was preempted. Crosses are refused requests, at the moment they were given up; the warm-up is shaded. Wheel or slider zooms, dragging moves, a click on a model's row below picks it out.</p>`,
    cutNote(recording),
    chartBox("timeline", timelineHeight(scenario.gpus)),
    `<h2>Models</h2>`,
    modelTable(result.models),
    `<div class="pair"><div><h2>Batch sizes</h2>${chartBox("batch-sizes", 320)}</div>`,
    `<div><h2>Queueing delay</h2>${chartBox("queue-delays", 320)}</div>`,
    `<div><h2>Good and bad requests over time</h2>${chartBox("rates", 320)}</div>`,
    `<div><h2>Use of the accelerators</h2>${chartBox("busy", 320)}</div></div>`,
  ].join("\n");
  const charts = {
    "batch-sizes": batchSizeChart(recording),
    "queue-delays": queueDelayChart(recording),
    rates: rateChart(recording, durationS),
    busy: busyChart(recording, windowS),
  };
  const data = { charts, timeline: timelineData(scenario, recording) };
  return htmlPage({ title: `Simulation: ${result.policy}, ${number(result.offeredRps)} r/s`, body, data });
}

export function describe({ models, gpus, rate, arrivals, duration, warmup, seed, network }: Scenario): string {
  const shape =
    arrivals.process === "gamma"
      ? `Gamma (shape ${arrivals.shape})`
      : arrivals.process === "modulated"
        ? `modulated (a rate of Gamma, shape ${arrivals.shape}, for ${number(arrivals.every / 1000)} ms)`
        : PROCESSES[arrivals.process];
  const delays = `network ${network.ctrl} µs control, ${network.data} µs a request's data, ${network.respond} µs answer`;
  const instant = network.ctrl + network.data + network.respond === 0;
  return [
    models.length === 1 ? models[0]!.name : `${models.length} models`,
    `${gpus} accelerators`,
    `${number(rate)} requests per second, ${shape} arrivals`,
    `${number(duration / 1e6)} s, the first ${number(warmup / 1e6)} s for warming up`,
    instant ? "no network delay" : delays,
    `seed ${seed}`,
  ].join(" · ");
}

const PROCESSES = { poisson: "Poisson", uniform: "evenly spaced", trace: "recorded" };

function tiles({ offeredRps, goodRps, badRate, gpu, batchSize, queueDelayMs }: SimulationResult): string {
  const tile = (value: string, meaning: string): string =>
    `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(meaning)}</span></div>`;
  return `<div class="tiles">${[
    tile(`${number(offeredRps)} r/s`, "offered"),
    tile(`${number(goodRps)} r/s`, "good: answered in time"),
    tile(percent(badRate), "refused or late"),
    tile(`${gpu.used} of ${gpu.count}`, "accelerators used"),
    tile(percent(gpu.busyFraction), "of their time busy"),
    tile(`${number(batchSize.mean)}`, `mean batch (p50 ${batchSize.p50}, p99 ${batchSize.p99})`),
    tile(`${number(queueDelayMs.p50)} ms`, `queueing, median (p99 ${number(queueDelayMs.p99)} ms)`),
  ].join("")}</div>`;
}

function modelTable(models: readonly ModelResult[]): string {
  const latency = (ms: number | null): number => ms ?? Infinity;
  return htmlTable(
    models,
    [
      {
        title: "model",
        cell: ({ name }, i) => ({
          html: `<span class="swatch" style="background:${colourOf(i, models.length)}"></span>${escapeHtml(name)}`,
        }),
      },
      { title: "offered (r/s)", cell: ({ offeredRps }) => offeredRps },
      { title: "good (r/s)", cell: ({ goodRps }) => goodRps },
      { title: "bad (%)", cell: ({ badRate }) => 100 * badRate },
      { title: "p50 (ms)", cell: ({ p50Ms }) => latency(p50Ms) },
      { title: "p99 (ms)", cell: ({ p99Ms }) => latency(p99Ms) },
      { title: "mean batch", cell: ({ batchMean }) => batchMean },
    ],
    (_, i) => ` data-model="${i}"`,
  );
}

function cutNote({ batches, refusals }: TimelineRecording): string {
  const cut = (what: string, kept: number, seen: number): string[] =>
    kept === seen ? [] : [`the first ${number(kept)} of ${number(seen)} ${what}`];
  const parts = [
    ...cut("batches", batches.begin.length, batches.seen),
    ...cut("refusals", refusals.at.length, refusals.seen),
  ];
  return parts.length === 0
    ? ""
    : `<p class="cut">Cut: shown are ${parts.join(" and ")}. All else on this page counts everything.</p>`;
}

const ROWS_SHOWN = 32;
const timelineHeight = (gpus: number): number => 110 + 24 * (Math.min(gpus, ROWS_SHOWN) + 1);

/**
 * Length of the part shown first, in medians of the models' SLOs: long enough to show batches that follow each other,
 * short enough to read their sizes.
 */
const SLOS_SHOWN = 8;

export function timelineData(scenario: Scenario, { batches, refusals }: TimelineRecording): TimelineData {
  const ms = (times: Float64Array): number[] => Array.from(times, (time) => time / 1000);
  const slo = scenario.models.map((model) => model.slo).toSorted((a, b) => a - b)[scenario.models.length >> 1]!;
  const end = batches.end.reduce((latest, at) => Math.max(latest, at), 0);
  const until = Math.max(end, refusals.at.at(-1) ?? 0, 1) / 1000;
  const from = Math.min(scenario.warmup, end) / 1000;
  return {
    models: scenario.models.map(({ name }, i) => ({ name, colour: colourOf(i, scenario.models.length) })),
    gpus: scenario.gpus,
    causes: REFUSAL_CAUSES,
    batches: {
      gpu: [...batches.gpu],
      model: [...batches.model],
      size: [...batches.size],
      begin: ms(batches.begin),
      end: ms(batches.end),
      completed: [...batches.completed],
    },
    refusals: { at: ms(refusals.at), model: [...refusals.model], cause: [...refusals.cause] },
    window: { from, to: Math.min(until, from + (SLOS_SHOWN * slo) / 1000) },
    until,
    warmup: scenario.warmup / 1000,
  };
}
