import { asHistogram } from "@tutti/profile";
import {
  type AppRunTimes,
  type BucketRunTimes,
  type ModelRunTimes,
  type ModelSpec,
  type RunTimes,
  threadName,
} from "@tutti/protocol";
import { cdfOn, meanOf, quantileOf, unionGrid } from "@tutti/dynamic";
import { formatDuration, micros } from "@tutti/units";
import { renderTable } from "../table.ts";

const HEADINGS = ["application", "share", "samples", "mean", "p50", "p99"];
const COLUMNS = 60;
const BLOCKS = " ▁▂▃▄▅▆▇█";
const DYNAMIC = "scheduled by these distributions";

const KINDS: Readonly<Record<BucketRunTimes["kind"], string>> = {
  dynamic: DYNAMIC,
  static: "its times alone hardly vary: scheduled by its latency table, and requests are seldom run again to see",
  unknown: "too few samples to tell whether its times vary: scheduled by its latency table",
};

export const appName = ({ app, name }: AppRunTimes): string => (name === "" ? `#${app.toString(16)}` : name);
/** The applications of a bucket; if they are not separated, one entry for all of them. */
export const shownApps = ({ apps, pool }: BucketRunTimes): readonly AppRunTimes[] =>
  apps.length > 0 || pool === undefined ? apps : [{ ...pool, name: "all" }];

/** A table of each bucket's applications, their distributions as blocks, and what batches cost. */
export function renderRunTimes(spec: ModelSpec, times: ModelRunTimes): string {
  return times.buckets
    .map((bucket, i) =>
      [
        `${threadName(spec, i)}: ${KINDS[bucket.kind]}`,
        renderTable(HEADINGS, shownApps(bucket).flatMap(rowsOf)),
        renderBlocks(shownApps(bucket)),
        renderCosts(bucket),
      ]
        .filter((part) => part !== "")
        .join("\n"),
    )
    .join("\n\n");
}

function rowsOf(app: AppRunTimes): string[][] {
  const row = (
    name: string,
    share: string,
    { samples, mean, p50, p99 }: Omit<AppRunTimes, "app" | "name" | "share" | "edges" | "masses">,
  ): string[] => [name, share, String(samples), duration(mean), duration(p50), duration(p99)];
  return [
    row(appName(app), `${Math.round(100 * app.share)} %`, app),
    ...(app.byUnits ?? []).map((one) =>
      row(`  up to ${Number(one.upTo.toPrecision(4))} units`, "", { ...one, ...summaryOf(one) }),
    ),
  ];
}

export function summaryOf(times: RunTimes): { mean: number; p50: number; p99: number } {
  const histogram = asHistogram(times);
  return { mean: meanOf(histogram), p50: quantileOf(histogram, 0.5), p99: quantileOf(histogram, 0.99) };
}

/**
 * Draws one line for each application over one time axis. A column's height is its mass relative to the application's
 * largest.
 */
function renderBlocks(apps: readonly AppRunTimes[]): string {
  if (apps.length === 0) return "";
  const from = Math.min(...apps.map(({ edges }) => edges[0]!));
  const to = Math.max(...apps.map(({ edges }) => edges.at(-1)!));
  const width = Math.max(...apps.map((app) => appName(app).length));
  const places = Float64Array.from({ length: COLUMNS + 1 }, (_, i) => from + ((to - from) * i) / COLUMNS);
  const lines = apps.map((app) => `${appName(app).padEnd(width)}  ${blocks(massesAt(app, places))}`);
  const [first, last] = [duration(from), duration(to)];
  const axis = `${" ".repeat(width)}  ${first}${last.padStart(COLUMNS - first.length)}`;
  return ["", axis, ...lines.map((line) => line.trimEnd())].join("\n");
}

/** Masses between places that may differ from the edges. */
export function massesAt(times: RunTimes, places: Float64Array): Float64Array {
  const histogram = asHistogram(times);
  const point = { edges: places, masses: new Float64Array(places.length - 1) };
  const grid = unionGrid([histogram, point]);
  const cdf = cdfOn(histogram, grid);
  const at = new Map([...grid].map((place, i) => [place, cdf[i]!]));
  return Float64Array.from({ length: places.length - 1 }, (_, i) => at.get(places[i + 1]!)! - at.get(places[i]!)!);
}

function blocks(masses: Float64Array): string {
  const most = Math.max(...masses);
  return [...masses].map((mass) => BLOCKS[mass <= 0 ? 0 : Math.max(1, Math.round((8 * mass) / most))]).join("");
}

function renderCosts({ costs, costSamples }: BucketRunTimes): string {
  const source = costSamples === 0 ? "from the latency table" : `from ${costSamples} batches`;
  const rows = costs
    .filter(({ batchSize }) => batchSize > 1)
    .map(({ batchSize, fixed, slope }) => [
      String(batchSize),
      `${fixed > 0 ? `${duration(fixed)} + ` : ""}${slope.toFixed(2)} · its longest member's`,
    ]);
  return rows.length === 0 ? "" : `\n${renderTable(["batch", `takes (${source})`], rows)}`;
}

const duration = (us: number): string => formatDuration(micros(Math.round(us)));
