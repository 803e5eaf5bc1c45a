import { type ModelRunTimes, type ModelSpec, threadName } from "@tutti/protocol";
import {
  type Column,
  NEUTRAL,
  chart,
  chartBox,
  colourOf,
  escapeHtml,
  htmlPage,
  htmlTable,
  line,
} from "@tutti/sim-report/page";
import {
  type ProfileSize,
  type ProfileTable,
  appName,
  shownApps,
  spreadText,
  summaryOf,
} from "@tutti/admin/model-tables";

interface Row {
  readonly name: string;
  readonly colour: string;
  readonly share: number | undefined;
  readonly samples: number;
  readonly mean: number;
  readonly p50: number;
  readonly p99: number;
}

export interface RunTimesPage {
  readonly spec: ModelSpec;
  readonly tables: readonly ProfileTable[];
  /** Undefined until the model has run. */
  readonly times: ModelRunTimes | undefined;
  /** The command that made the page. */
  readonly source: string;
}

/**
 * Latencies of batches, given and learned, and every bucket's distributions of requests alone as curves over one axis,
 * with the tables, in one document that needs no network.
 */
export function runTimesPage({ spec, tables, times, source }: RunTimesPage): string {
  const charts: Record<string, ReturnType<typeof chart>> = {};
  const profiles = tables.map((table, i) => {
    charts[`profile-${i}`] = profileChart(table);
    const title = `${table.name}${table.type === "" ? "" : ` on ${table.type}`}`;
    return [
      `<h2>${escapeHtml(title)}: latencies of batches</h2>`,
      htmlTable(table.sizes, [
        { title: "batch", cell: ({ batchSize }) => batchSize },
        { title: `${table.source} (ms)`, cell: ({ given }) => given / 1_000 },
        { title: "learned (ms)", cell: ({ learned }) => learned / 1_000 },
        ...(["p10", "p50", "p90"] as const).map((q) => ({
          title: `${q} (ms)`,
          cell: ({ spread }: ProfileSize) => (spread === undefined ? "" : spread[q] / 1_000),
        })),
        { title: "runs", cell: ({ spread }) => spread?.runs ?? "" },
      ]),
      chartBox(`profile-${i}`, 360),
    ].join("\n");
  });
  const body = (times?.buckets ?? []).map((bucket, i) => {
    const apps = shownApps(bucket);
    charts[`times-${i}`] = chart({
      x: { name: "running time alone (ms)", min: 0 },
      y: { name: "share of requests per ms", min: 0 },
      series: apps.map((app, place) =>
        line({ name: appName(app), points: curveOf(app), colour: colourOf(place, apps.length), marks: false, place }),
      ),
      legend: true,
    });
    const rows = apps.flatMap((app, place): Row[] => {
      const colour = colourOf(place, apps.length);
      const classes = (app.byUnits ?? []).map((one) => ({
        ...{ name: `up to ${one.upTo} units`, colour, share: undefined, samples: one.samples },
        ...summaryOf(one),
      }));
      return [{ ...app, name: appName(app), colour }, ...classes];
    });
    const costs = bucket.costSamples === 0 ? "the latency table" : `${bucket.costSamples} batches`;
    return [
      `<h2>${escapeHtml(threadName(spec, i))}: requests alone, ${bucket.kind}</h2>`,
      htmlTable(rows, COLUMNS),
      chartBox(`times-${i}`, 360),
      `<p class="note">What a batch takes of what its longest member takes alone, from ${costs}:</p>`,
      htmlTable(bucket.costs, [
        { title: "batch", cell: ({ batchSize }) => batchSize },
        { title: "fixed (ms)", cell: ({ fixed }) => fixed / 1_000 },
        { title: "times", cell: ({ slope }) => slope },
      ]),
    ].join("\n");
  });
  return htmlPage({
    title: `Running times of ${spec.name}`,
    body: [
      `<h1>Running times of ${escapeHtml(spec.name)}</h1>`,
      `<p class="note"><code>${escapeHtml(source)}</code></p>`,
      `<p class="note">${escapeHtml(spreadText(times))}</p>`,
      ...profiles,
      ...(body.length > 0 ? body : ['<p class="note">How long its requests take alone is still unknown.</p>']),
    ].join("\n"),
    data: { charts },
  });
}

/** Both as lines over the batch size, and between the quantiles 0.1 and 0.9 of recent runs a band. */
function profileChart({ sizes, source }: ProfileTable): ReturnType<typeof chart> {
  const points = (of: (size: ProfileSize) => number): [number, number][] =>
    sizes.map((size) => [size.batchSize, of(size) / 1_000]);
  const ran = sizes.flatMap(({ batchSize, spread }) => (spread === undefined ? [] : [{ batchSize, spread }]));
  const edge = (name: string, of: (spread: NonNullable<ProfileSize["spread"]>) => number): object => ({
    ...{ type: "line", name, stack: "runs", showSymbol: false, lineStyle: { opacity: 0 }, color: NEUTRAL },
    data: ran.map(({ batchSize, spread }) => [batchSize, of(spread) / 1_000]),
    tooltip: { show: false },
  });
  return chart({
    x: { name: "batch size", min: 1 },
    y: { name: "latency (ms)", min: 0 },
    series: [
      line({ name: "learned", points: points(({ learned }) => learned), colour: colourOf(0, 2), place: 0 }),
      line({ name: source, points: points(({ given }) => given), colour: colourOf(1, 2), dashed: true, place: 1 }),
      // Stacked: the band lies on its lower edge.
      edge("", ({ p10 }) => p10),
      { ...edge("runs, p10 to p90", ({ p10, p90 }) => p90 - p10), areaStyle: { color: NEUTRAL, opacity: 0.25 } },
    ],
    legend: true,
  });
}

const COLUMNS: readonly Column<Row>[] = [
  {
    title: "application",
    cell: ({ name, colour }) => ({
      html: `<span class="swatch" style="background:${colour}"></span>${escapeHtml(name)}`,
    }),
  },
  { title: "share (%)", cell: ({ share }) => (share === undefined ? "" : 100 * share) },
  { title: "samples", cell: ({ samples }) => samples },
  { title: "mean (ms)", cell: ({ mean }) => mean / 1_000 },
  { title: "p50 (ms)", cell: ({ p50 }) => p50 / 1_000 },
  { title: "p99 (ms)", cell: ({ p99 }) => p99 / 1_000 },
];

/** The outline of the bins, as density per ms. */
const curveOf = ({
  edges,
  masses,
}: {
  readonly edges: readonly number[];
  readonly masses: readonly number[];
}): [number, number][] => {
  const ms = edges.map((edge) => edge / 1_000);
  return [
    [ms[0]!, 0],
    ...masses.flatMap((mass, j): [number, number][] => {
      const density = mass / (ms[j + 1]! - ms[j]!);
      return [
        [ms[j]!, density],
        [ms[j + 1]!, density],
      ];
    }),
    [ms.at(-1)!, 0],
  ];
};
