import type { Scenario, SimulationResult } from "@tutti/simulator";
import { badRateCurves, batchSizeCurves, queueDelayCurves, type NamedRecording } from "./charts/recording-charts.ts";
import { chart } from "./charts/axes.ts";
import { type Column, chartBox, escapeHtml, htmlPage, htmlTable, number } from "./html.ts";
import { NEUTRAL, GOOD, colourOf } from "./palette.ts";
import { describe } from "./simulation-page.ts";
import type { TimelineRecording } from "./timeline-recorder.ts";

export interface ComparisonEntry {
  readonly result: SimulationResult;
  /** Recording of the run; entries without one are missing in the distributions. */
  readonly recording?: TimelineRecording;
  /** The highest rate with at most 1 % bad for every model; undefined where it was not searched for. */
  readonly goodputRps?: number;
}

export interface ComparisonPageOptions {
  readonly scenario: Scenario;
  /** In the order to show them; policies are named by `result.policy`. */
  readonly entries: readonly ComparisonEntry[];
  readonly source?: string;
}

/** Policies on the same arrivals, side by side, as one HTML document that needs no network. */
export function comparisonPage({ scenario, entries, source }: ComparisonPageOptions): string {
  const runs = entries.flatMap(({ result, recording }): NamedRecording[] =>
    recording === undefined ? [] : [{ name: result.policy, recording }],
  );
  const drawn = runs.length > 0;
  const body = [
    `<h1>${entries.length} policies on the same ${number(entries[0]?.result.offeredRps ?? scenario.rate)} requests per second</h1>`,
    `<p class="note">${escapeHtml(describe(scenario))}</p>`,
    source === undefined ? "" : `<p class="note"><code>${escapeHtml(source)}</code></p>`,
    `<h2>Results</h2>`,
    htmlTable(entries, columns(entries)),
    `<div class="pair"><div><h2>Good requests per second</h2>${chartBox("good", 320)}</div>`,
    `<div><h2>Bad rate and busy share</h2>${chartBox("shares", 320)}</div>`,
    drawn ? `<div><h2>Batch sizes</h2>${chartBox("batch-sizes", 360)}</div>` : "",
    drawn ? `<div><h2>Queueing delay</h2>${chartBox("queue-delays", 360)}</div>` : "",
    `</div>`,
    drawn ? `<h2>Bad rate over time</h2>${chartBox("bad", 320)}` : "",
  ].join("\n");
  const distributions = {
    "batch-sizes": batchSizeCurves(runs),
    "queue-delays": queueDelayCurves(runs),
    bad: badRateCurves(runs, scenario.duration / 1e6),
  };
  const charts = { good: goodChart(entries), shares: shareChart(entries), ...(drawn ? distributions : {}) };
  return htmlPage({ title: "Comparison of policies", body, data: { charts } });
}

function columns(entries: readonly ComparisonEntry[]): Column<ComparisonEntry>[] {
  const swatch = (i: number): string =>
    `<span class="swatch" style="background:${colourOf(i, entries.length)}"></span>`;
  const searched = entries.some(({ goodputRps }) => goodputRps !== undefined);
  const goodput: Column<ComparisonEntry> = {
    title: "goodput (r/s)",
    cell: ({ goodputRps }) => goodputRps ?? "–",
  };
  return [
    { title: "policy", cell: ({ result }, i) => ({ html: swatch(i) + escapeHtml(result.policy) }) },
    ...(searched ? [goodput] : []),
    { title: "good (r/s)", cell: ({ result }) => result.goodRps },
    { title: "bad (%)", cell: ({ result }) => 100 * result.badRate },
    { title: "worst model bad (%)", cell: ({ result }) => 100 * worst(result) },
    { title: "mean batch", cell: ({ result }) => result.batchSize.mean },
    { title: "p99 batch", cell: ({ result }) => result.batchSize.p99 },
    { title: "queueing p50 (ms)", cell: ({ result }) => result.queueDelayMs.p50 },
    { title: "queueing p99 (ms)", cell: ({ result }) => result.queueDelayMs.p99 },
    { title: "busy (%)", cell: ({ result }) => 100 * result.gpu.busyFraction },
    { title: "accelerators used", cell: ({ result }) => `${result.gpu.used} of ${result.gpu.count}` },
  ];
}

const worst = ({ models }: SimulationResult): number => Math.max(0, ...models.map(({ badRate }) => badRate));

function goodChart(entries: readonly ComparisonEntry[]): ReturnType<typeof chart> {
  return chart({
    x: { name: "policy", categories: entries.map(({ result }) => result.policy) },
    y: { name: "good requests per second", min: 0 },
    series: [
      {
        ...{ type: "bar", name: "good requests per second", color: GOOD, barMaxWidth: 60 },
        data: entries.map(({ result }, i) => ({
          value: result.goodRps,
          itemStyle: { color: colourOf(i, entries.length) },
        })),
      },
    ],
  });
}

function shareChart(entries: readonly ComparisonEntry[]): ReturnType<typeof chart> {
  const bars = (name: string, color: string, share: (result: SimulationResult) => number): object => ({
    ...{ type: "bar", name, color, barMaxWidth: 40, data: entries.map(({ result }) => 100 * share(result)) },
  });
  return chart({
    x: { name: "policy", categories: entries.map(({ result }) => result.policy) },
    y: { name: "share (%)", min: 0 },
    series: [
      bars("refused or late", "#c8433d", ({ badRate }) => badRate),
      bars("busy", NEUTRAL, ({ gpu }) => gpu.busyFraction),
    ],
  });
}
