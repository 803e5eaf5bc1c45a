/** Renders a measurement as one self-contained HTML document, made of the simulator's components. */
import {
  BAD,
  type Column,
  GOOD,
  chart,
  chartBox,
  colourOf,
  escapeHtml,
  htmlPage,
  htmlTable,
  line,
  number,
  percent,
} from "@tutti/sim-report/page";
import type { BenchReport } from "./report.ts";
import type { Slice, StreamReport } from "./tally.ts";
import type { TrialReport } from "./trial.ts";

export function benchPage(report: BenchReport): string {
  const { trials, command, streams } = report;
  const isSweep = trials.length > 1;
  const body = [
    `<h1>${escapeHtml(headline(report))}</h1>`,
    `<p class="note">${escapeHtml(described(report))}</p>`,
    `<p class="note"><code>${escapeHtml(command)}</code></p>`,
    ...verdicts(report).map((text) => `<p class="cut">${escapeHtml(text)}</p>`),
    "<h2>Trials</h2>",
    htmlTable(trials, trialColumns(trials)),
    `<p class="note">Latencies are of outputs, from when a request was due to leave until its outputs were there; good ones came within the SLO by that reckoning.</p>`,
    `<div class="pair">`,
    isSweep ? `<div><h2>Good requests</h2>${chartBox("good", 320)}</div>` : "",
    isSweep ? `<div><h2>Latency by rate</h2>${chartBox("latency", 320)}</div>` : "",
    `<div><h2>Latency by percentile</h2>${chartBox("percentiles", 320)}</div>`,
    isSweep ? "" : `<div><h2>Over time</h2>${chartBox("time", 320)}</div>`,
    `</div>`,
    ...(streams.length > 1 ? ["<h2>Streams</h2>", htmlTable(rowsOf(trials), STREAM_COLUMNS)] : []),
    "<h2>The client itself</h2>",
    htmlTable(trials, CLIENT_COLUMNS),
  ].join("\n");
  const single = trials.length === 1 ? trials[0] : undefined;
  const charts = {
    ...(isSweep && { good: goodChart(trials), latency: latencyChart(trials) }),
    percentiles: percentileChart(trials),
    ...(!isSweep && { time: timeChart(single?.slices ?? []) }),
  };
  return htmlPage({ title: headline(report), body, data: { charts } });
}

export function headline({ trials, goodput, target }: BenchReport): string {
  if (goodput !== undefined) {
    const least = goodput.limitedByClient ? "at least " : "";
    return `Goodput of ${target}: ${least}${number(goodput.goodputRps)} requests per second`;
  }
  const [only] = trials;
  if (trials.length === 1 && only !== undefined)
    return `${target}: ${number(only.goodRps)} of ${number(only.offeredRps)} requests per second in time`;
  return `${target} at ${trials.length} rates`;
}

const described = ({ startedAt, arrivals, seed, warmupSeconds, streams }: BenchReport): string =>
  [
    streams.map(({ name, weight, sloMs }) => `${name} (weight ${number(weight)}, SLO ${number(sloMs)} ms)`).join(", "),
    `${arrivals} arrivals`,
    `seed ${seed}`,
    `${number(warmupSeconds)} s of warm-up`,
    startedAt,
  ].join(" · ");

/** Warnings about the validity of the figures. */
export function verdicts({ trials, interrupted, goodput }: BenchReport): string[] {
  const limited = trials.flatMap(({ client, rateRps }) =>
    client.wasBottleneck ? [`The client was the bottleneck${at(rateRps)}: ${client.reasons.join("; ")}.`] : [],
  );
  return [
    ...limited,
    ...(goodput?.limitedByClient === true ? ["The search ended there: the cluster may carry more."] : []),
    ...(interrupted ? ["It was interrupted: this is what was measured until then."] : []),
  ];
}
const at = (rate: number): string => (rate > 0 ? ` at ${number(rate)} r/s` : "");

function trialColumns(trials: readonly TrialReport[]): Column<TrialReport>[] {
  const swatch = (i: number): string => `<span class="swatch" style="background:${colourOf(i, trials.length)}"></span>`;
  return [
    { title: "offered (r/s)", cell: ({ offeredRps }, i) => ({ html: swatch(i) + number(offeredRps) }) },
    { title: "good (r/s)", cell: ({ goodRps }) => goodRps },
    { title: "bad (%)", cell: ({ badRate }) => 100 * badRate },
    { title: "worst model", cell: (one) => `${one.worstModel} ${percent(one.worstModelBadRate)}` },
    { title: "p50 (ms)", cell: ({ latencyMs }) => latencyMs.p50 ?? "–" },
    { title: "p90 (ms)", cell: ({ latencyMs }) => latencyMs.p90 ?? "–" },
    { title: "p99 (ms)", cell: ({ latencyMs }) => latencyMs.p99 ?? "–" },
    { title: "p99.9 (ms)", cell: ({ latencyMs }) => latencyMs.p999 ?? "–" },
    { title: "max (ms)", cell: ({ latencyMs }) => latencyMs.max ?? "–" },
    { title: "late", cell: ({ late }) => late },
    { title: "lost", cell: ({ lost }) => lost },
    { title: "refused", cell: (one) => refusals(one.refused) },
  ];
}

interface StreamRow extends StreamReport {
  readonly trial: TrialReport;
}
const rowsOf = (trials: readonly TrialReport[]): StreamRow[] =>
  trials.flatMap((trial) => trial.streams.map((stream) => ({ ...stream, trial })));
const STREAM_COLUMNS: readonly Column<StreamRow>[] = [
  { title: "offered by all (r/s)", cell: ({ trial }) => trial.offeredRps },
  { title: "stream", cell: ({ name }) => name },
  { title: "SLO (ms)", cell: ({ sloMs }) => sloMs },
  { title: "offered (r/s)", cell: ({ offeredRps }) => offeredRps },
  { title: "good (r/s)", cell: ({ goodRps }) => goodRps },
  { title: "bad (%)", cell: ({ badRate }) => 100 * badRate },
  { title: "p50 (ms)", cell: ({ latencyMs }) => latencyMs.p50 ?? "–" },
  { title: "p99 (ms)", cell: ({ latencyMs }) => latencyMs.p99 ?? "–" },
  { title: "refusals p99 (ms)", cell: ({ refusalMs }) => refusalMs.p99 ?? "–" },
  { title: "late", cell: ({ late }) => late },
  { title: "lost", cell: ({ lost }) => lost },
  { title: "refused", cell: ({ refused }) => refusals(refused) },
];
const CLIENT_COLUMNS: readonly Column<TrialReport>[] = [
  { title: "offered (r/s)", cell: ({ offeredRps }) => offeredRps },
  { title: "left late p50 (ms)", cell: ({ client }) => client.sendLagMs.p50 ?? "–" },
  { title: "p99 (ms)", cell: ({ client }) => client.sendLagMs.p99 ?? "–" },
  { title: "max (ms)", cell: ({ client }) => client.sendLagMs.max ?? "–" },
  { title: "event loop late p99 (ms)", cell: ({ client }) => client.eventLoopDelayMs.p99 ?? "–" },
  { title: "max (ms)", cell: ({ client }) => client.eventLoopDelayMs.max ?? "–" },
  { title: "thread in use (%)", cell: ({ client }) => 100 * client.utilization },
  { title: "was the bottleneck", cell: ({ client }) => (client.wasBottleneck ? client.reasons.join("; ") : "no") },
];

export const refusals = (refused: Readonly<Record<string, number>>): string =>
  Object.entries(refused)
    .map(([code, count]) => `${code.replace(/^TUTTI_/, "")} ${count}`)
    .join(", ");

type Chart = ReturnType<typeof chart>;
const byRate = (trials: readonly TrialReport[]): TrialReport[] =>
  trials.toSorted((a, b) => a.offeredRps - b.offeredRps);

function goodChart(trials: readonly TrialReport[]): Chart {
  const sorted = byRate(trials);
  const offered = sorted.map(({ offeredRps }): [number, number] => [offeredRps, offeredRps]);
  const good = sorted.map(({ offeredRps, goodRps }): [number, number] => [offeredRps, goodRps]);
  return chart({
    x: { name: "offered (requests per second)", min: 0 },
    y: { name: "requests per second", min: 0 },
    series: [
      line({ name: "offered", points: offered, colour: BAD, marks: false, dashed: true }),
      line({ name: "good", points: good, colour: GOOD }),
    ],
  });
}

function latencyChart(trials: readonly TrialReport[]): Chart {
  const sorted = byRate(trials);
  const curves = (["p50", "p90", "p99", "p999"] as const).map((name, place) =>
    line({
      ...{ name: name === "p999" ? "p99.9" : name, colour: colourOf(place, 4), place },
      points: sorted.flatMap(({ offeredRps, latencyMs }): [number, number][] =>
        latencyMs[name] === null ? [] : [[offeredRps, latencyMs[name]]],
      ),
    }),
  );
  return chart({
    x: { name: "offered (requests per second)", min: 0 },
    y: { name: "latency (ms)", min: 0 },
    series: curves,
  });
}

/** Percentiles of latency on HdrHistogram's axis: 1/(1 − percentile), so that each nine takes as much room. */
function percentileChart(trials: readonly TrialReport[]): Chart {
  return chart({
    x: { name: "1 of so many takes longer (10: p90, 100: p99)", scale: "log", min: 1 },
    y: { name: "latency (ms)", min: 0 },
    series: trials.map((trial, place) =>
      line({
        ...{ name: `${number(trial.offeredRps)} r/s`, colour: colourOf(place, trials.length), place, marks: false },
        points: trial.curve.map(([percentile, ms]) => [1 / (1 - percentile / 100), ms]),
      }),
    ),
  });
}

function timeChart(slices: readonly Slice[]): Chart {
  const points = (value: (slice: Slice) => number): [number, number][] =>
    slices.map((slice) => [slice.second, value(slice)]);
  const width = slices.length > 1 ? slices[1]!.second - slices[0]!.second : 1;
  return chart({
    x: { name: "time since the warm-up (s)", min: 0 },
    y: { name: "requests per second", min: 0 },
    series: [
      line({ name: "good", points: points(({ good }) => good / width), colour: GOOD, marks: false }),
      line({ name: "bad", points: points(({ offered, good }) => (offered - good) / width), colour: BAD, marks: false }),
    ],
  });
}
