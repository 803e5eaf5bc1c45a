import { type ModelRunTimes, type ModelSpec, threadName } from "@tutti/protocol";
import { type Column, chart, chartBox, colourOf, escapeHtml, htmlPage, htmlTable, line } from "@tutti/sim-report/page";
import { appName, shownApps, summaryOf } from "@tutti/admin/model-tables";

interface Row {
  readonly name: string;
  readonly colour: string;
  readonly share: number | undefined;
  readonly samples: number;
  readonly mean: number;
  readonly p50: number;
  readonly p99: number;
}

/** Every bucket's distributions as curves over one axis, with the tables, in one document that needs no network. */
export function runTimesPage(spec: ModelSpec, times: ModelRunTimes, source: string): string {
  const charts: Record<string, ReturnType<typeof chart>> = {};
  const body = times.buckets.map((bucket, i) => {
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
      `<h2>${escapeHtml(threadName(spec, i))}: ${bucket.kind}</h2>`,
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
      `<h1>Running times of ${escapeHtml(spec.name)}, alone</h1>`,
      `<p class="note"><code>${escapeHtml(source)}</code></p>`,
      ...body,
    ].join("\n"),
    data: { charts },
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
