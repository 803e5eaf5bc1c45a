/**
 * The report as one HTML document that needs no network. It shows figures, time without service by role, and the whole
 * run over time.
 */
import {
  BAD,
  GOOD,
  LATE,
  NEUTRAL,
  chart,
  chartBox,
  colourOf,
  escapeHtml,
  htmlPage,
  htmlTable,
  number,
  percent,
} from "@tutti/sim-report/page";
import type { ChaosRecord, Strike } from "./record.ts";
import {
  CLIENT_GRACE_MS,
  type Fate,
  SIGNAL_TEXT,
  type StrikeReport,
  type Verdict,
  failuresOf,
  groupOf,
} from "./verdict.ts";

const BIN_MS = 250;
const FINDINGS_SHOWN = 50;

export function reportPage(record: ChaosRecord, verdict: Verdict, source: string, shareMin?: number): string {
  const failures = failuresOf(verdict, shareMin);
  const lost = [...verdict.lost, ...verdict.wrong, ...verdict.twice].slice(0, FINDINGS_SHOWN);
  const body = [
    `<h1>${failures.length === 0 ? "Nothing was lost" : "Failed"}: ${number(verdict.sent)} requests through ${record.strikes.length} strikes</h1>`,
    `<p class="note"><code>${escapeHtml(source)}</code></p>`,
    ...failures.map((failure) => `<p class="cut">${escapeHtml(failure)}</p>`),
    tiles(verdict),
    "<h2>Requests over time</h2>",
    `<p class="note">By the moment when they were sent, in bins of ${BIN_MS} ms. A line is a strike: red for killed, orange for asked to end, blue for frozen. The slider zooms.</p>`,
    chartBox("requests", 380),
    "<h2>Latency over time</h2>",
    chartBox("latency", 300),
    "<h2>Time without service</h2>",
    `<p class="note">The longest time after a strike in which some model gave no good answer. Without a strike it is ${number(verdict.usualMs)} ms in half a second, by the gaps between requests.</p>`,
    chartBox("service", 320),
    htmlTable(verdict.roles, [
      { title: "struck", cell: ({ role }) => role },
      { title: "strikes", cell: ({ strikes }) => strikes },
      { title: "p50 (ms)", cell: ({ p50Ms }) => p50Ms },
      { title: "p99 (ms)", cell: ({ p99Ms }) => p99Ms },
    ]),
    "<h2>Strikes</h2>",
    strikeTable(record, verdict.strikes),
    ...(lost.length === 0
      ? []
      : ["<h2>What should not be</h2>", ...lost.map(({ text }) => `<p class="cut">${escapeHtml(text)}</p>`)]),
  ].join("\n");
  const charts = {
    requests: requestChart(record, verdict),
    latency: latencyChart(record, verdict),
    service: serviceChart(verdict),
  };
  return htmlPage({ title: `Chaos: ${record.strikes.length} strikes`, body, data: { charts } });
}

function tiles({ sent, answeredOnce, refused, unavailable, lost, twice, wrong, inTimeShare, judged }: Verdict): string {
  const tile = (value: string, meaning: string): string =>
    `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(meaning)}</span></div>`;
  const causes = Object.entries(refused).map(([cause, count]) => tile(number(count), `refused: ${cause}`));
  return `<div class="tiles">${[
    tile(number(sent), "sent"),
    tile(number(answeredOnce), "answered once"),
    ...causes,
    tile(number(unavailable), "unavailable: their ingress was killed or frozen"),
    tile(number(lost.length), "lost"),
    tile(number(twice.length), "answered twice"),
    tile(number(wrong.length), "answered wrongly"),
    tile(percent(inTimeShare), `in time, of ${number(judged)} outside the 500 ms after a strike`),
  ].join("")}</div>`;
}

const COLOUR = { SIGKILL: BAD, SIGTERM: LATE, SIGSTOP: colourOf(0, 1) } as const;

function strikeTable({ startedMs }: ChaosRecord, strikes: readonly StrikeReport[]): string {
  return htmlTable(strikes, [
    { title: "at (s)", cell: ({ strike }) => (strike.atMs - startedMs) / 1_000 },
    { title: "who", cell: ({ strike }) => `${strike.name}${strike.leading ? " (leading)" : ""}` },
    { title: "how", cell: ({ strike }) => SIGNAL_TEXT[strike.signal] },
    { title: "back after (ms)", cell: ({ strike }) => (strike.backMs ?? Infinity) - strike.atMs },
    { title: "without service (ms)", cell: ({ withoutServiceMs }) => withoutServiceMs },
    { title: "failed in 500 ms", cell: ({ failed }) => failed },
  ]);
}

/** One group of a stacked chart for each way in which a request can end. */
const GROUPS: readonly { readonly name: string; readonly colour: string; readonly fits: (fate: Fate) => boolean }[] = [
  { name: "in time", colour: GOOD, fits: ({ kind }) => kind === "in-time" },
  { name: "late", colour: LATE, fits: ({ kind }) => kind === "late" },
  { name: "refused", colour: BAD, fits: ({ kind }) => kind === "refused" },
  { name: "unavailable", colour: NEUTRAL, fits: ({ kind }) => kind === "unavailable" },
  { name: "lost or wrong", colour: "#000000", fits: ({ kind }) => kind === "lost" || kind === "wrong" },
];

function requestChart(record: ChaosRecord, { fates }: Verdict): ReturnType<typeof chart> {
  const bins = Math.ceil((record.endedMs - record.startedMs) / BIN_MS);
  const series = GROUPS.map(({ name, colour, fits }, i) => {
    const counts = new Float64Array(bins);
    for (const { token, sentMs } of record.requests) {
      const bin = Math.floor((sentMs - record.startedMs) / BIN_MS);
      if (fits(fates[token]!)) counts[Math.min(bins - 1, Math.max(0, bin))]! += 1000 / BIN_MS;
    }
    return {
      ...{ type: "line", name, color: colour, showSymbol: false, stack: "requests", step: "end" },
      data: [...counts].map((count, bin) => [(bin * BIN_MS) / 1_000, count]),
      lineStyle: { width: 1 },
      areaStyle: { opacity: 0.6 },
      ...(i === 0 ? { markLine: marks(record) } : {}),
    };
  });
  return zoomed(chart({ x: timeAxis(record), y: { name: "requests per second", min: 0 }, series }));
}

/** The slowest and the median good answer of each bin. */
function latencyChart(record: ChaosRecord, { fates }: Verdict): ReturnType<typeof chart> {
  const bins = new Map<number, number[]>();
  for (const { token, sentMs, answers } of record.requests) {
    if (fates[token]!.kind !== "in-time" && fates[token]!.kind !== "late") continue;
    const bin = Math.floor((sentMs - record.startedMs) / BIN_MS);
    bins.set(bin, [...(bins.get(bin) ?? []), answers[0]!.atMs - sentMs]);
  }
  const sorted = [...bins].sort(([a], [b]) => a - b);
  const line = (name: string, colour: string, of: (latencies: number[]) => number, rest: object): object => ({
    ...{ type: "line", name, color: colour, showSymbol: false, step: "end", lineStyle: { width: 1 } },
    data: sorted.map(([bin, latencies]) => [(bin * BIN_MS) / 1_000, Number(of(latencies).toPrecision(4))]),
    ...rest,
  });
  const median = (latencies: number[]): number => latencies.sort((a, b) => a - b)[latencies.length >> 1]!;
  const series = [
    line("slowest", LATE, (latencies) => Math.max(...latencies), { markLine: marks(record) }),
    line("median", GOOD, median, {}),
  ];
  return zoomed(
    chart({
      x: timeAxis(record),
      y: { name: `latency (ms; given up ${CLIENT_GRACE_MS} ms after the deadline)`, min: 0 },
      series,
    }),
  );
}

function serviceChart({ strikes }: Verdict): ReturnType<typeof chart> {
  const groups = [...new Set(strikes.map(({ strike }) => groupOf(strike)))].sort();
  const series = (Object.keys(SIGNAL_TEXT) as Strike["signal"][]).map((signal) => ({
    ...{
      type: "scatter",
      name: SIGNAL_TEXT[signal],
      color: COLOUR[signal],
      symbolSize: 9,
      itemStyle: { opacity: 0.7 },
    },
    data: strikes
      .filter(({ strike }) => strike.signal === signal)
      .map(({ strike, withoutServiceMs }) => [groupOf(strike), Number(Math.max(1, withoutServiceMs).toPrecision(4))]),
  }));
  return chart({
    x: { name: "struck", categories: groups },
    y: { name: "without service (ms)", scale: "log" },
    legend: true,
    series,
  });
}

const timeAxis = ({ startedMs, endedMs }: ChaosRecord) => ({
  name: "time (s)",
  min: 0,
  max: Math.ceil((endedMs - startedMs) / 1_000),
});

const marks = ({ strikes, startedMs }: ChaosRecord): object => ({
  symbol: "none",
  silent: true,
  label: { show: strikes.length <= 30, formatter: "{b}", fontSize: 10, rotate: 90, position: "insideEndTop" },
  data: strikes.map(({ atMs, name, signal }) => ({
    name,
    xAxis: (atMs - startedMs) / 1_000,
    lineStyle: { color: COLOUR[signal], type: "solid", width: 1 },
  })),
});

const zoomed = (option: ReturnType<typeof chart>): ReturnType<typeof chart> => ({
  ...option,
  grid: { ...(option["grid"] as object), bottom: 86 },
  dataZoom: [{ type: "slider", bottom: 10, height: 20 }, { type: "inside" }],
});
