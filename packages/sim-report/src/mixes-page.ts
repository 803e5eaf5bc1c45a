import type { ComparedMix } from "@tutti/simulator";
import { chart } from "./charts/axes.ts";
import { type Column, chartBox, escapeHtml, htmlPage, htmlTable } from "./html.ts";
import { GOOD, LATE, NEUTRAL } from "./palette.ts";

export interface MixesPageOptions {
  readonly mixes: readonly ComparedMix[];
  readonly rivals: readonly string[];
  readonly source?: string;
}

/** The default policy on random mixes, beside its best rival and the bound, as distributions and a table. */
export function mixesPage({ mixes, rivals, source }: MixesPageOptions): string {
  const body = [
    `<h1>The default policy on ${mixes.length} random mixes</h1>`,
    `<p class="note">Beside the best of ${escapeHtml(rivals.join(", "))}, each by its own goodput.</p>`,
    source === undefined ? "" : `<p class="note"><code>${escapeHtml(source)}</code></p>`,
    `<h2>Share of mixes with at most this ratio</h2>`,
    chartBox("ratios", 360),
    `<h2>Mixes</h2>`,
    htmlTable(mixes, COLUMNS),
  ].join("\n");
  return htmlPage({ title: "Random mixes", body, data: { charts: { ratios: ratiosChart(mixes) } } });
}

const COLUMNS: Column<ComparedMix>[] = [
  { title: "seed", cell: ({ seed }) => String(seed) },
  { title: "accelerators", cell: ({ gpus }) => gpus },
  { title: "models", cell: ({ models }) => models },
  { title: "arrivals", cell: ({ arrivals }) => arrivals },
  { title: "default (r/s)", cell: ({ goodputRps }) => goodputRps },
  { title: "best rival", cell: ({ rival }) => rival },
  { title: "best rival (r/s)", cell: ({ rivalRps }) => rivalRps },
  { title: "default ÷ rival", cell: ({ goodputRps, rivalRps }) => goodputRps / rivalRps },
  { title: "default ÷ non-preemptive", cell: ({ goodputRps, nonPreemptiveRps }) => goodputRps / nonPreemptiveRps },
  { title: "default ÷ clairvoyant", cell: ({ goodputRps, boundRps }) => goodputRps / boundRps },
  { title: "1 % is", cell: ({ badLeast }) => Math.round(badLeast) },
];

export function ratiosChart(mixes: readonly ComparedMix[]): ReturnType<typeof chart> {
  const curve = (name: string, color: string, ratioOf: (mix: ComparedMix) => number): object => {
    const sorted = mixes
      .map(ratioOf)
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
    const data = sorted.map((ratio, i) => [ratio, (100 * (i + 1)) / sorted.length]);
    return { type: "line", step: "end", showSymbol: false, name, color, data };
  };
  return chart({
    x: { name: "goodput ratio", min: 0 },
    y: { name: "share of mixes (%)", min: 0, max: 100 },
    series: [
      curve("default ÷ best rival", GOOD, (mix) => mix.goodputRps / mix.rivalRps),
      curve("default ÷ non-preemptive bound", LATE, (mix) => mix.goodputRps / mix.nonPreemptiveRps),
      curve("default ÷ clairvoyant bound", NEUTRAL, (mix) => mix.goodputRps / mix.boundRps),
    ],
  });
}
