/**
 * HTML documents without external resources: library, data and style are inside, and the content security policy
 * forbids the page to fetch anything.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { EChartsCoreOption } from "echarts/core";

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** JSON for a script element: without `<`, so that nothing in the data can end the element or begin a comment. */
export const embedJson = (value: unknown): string => JSON.stringify(value).replaceAll("<", "\\u003c");

/** Data that the script of a page (browser/page.js) reads from the document. */
export interface PageData {
  /** Charts by the id of their element; drawn as they are, except that numbers in tooltips are shortened. */
  readonly charts: Readonly<Record<string, EChartsCoreOption>>;
  readonly timeline?: TimelineData;
}

/** Times in ms since the beginning of the run. Columns have one entry per batch, or per refused request. */
export interface TimelineData {
  readonly models: readonly { readonly name: string; readonly colour: string }[];
  readonly gpus: number;
  readonly causes: readonly string[];
  readonly batches: {
    readonly gpu: readonly number[];
    readonly model: readonly number[];
    readonly size: readonly number[];
    readonly begin: readonly number[];
    readonly end: readonly number[];
    readonly completed: readonly number[];
  };
  readonly refusals: {
    readonly at: readonly number[];
    readonly model: readonly number[];
    readonly cause: readonly number[];
  };
  /** The part that is shown first. */
  readonly window: { readonly from: number; readonly to: number };
  /** Time of the last event. */
  readonly until: number;
  readonly warmup: number;
}

export interface PageOptions {
  readonly title: string;
  /** HTML. */
  readonly body: string;
  /** Undefined for a page without charts, which needs neither library nor script. */
  readonly data: PageData | undefined;
}

export function htmlPage({ title, body, data }: PageOptions): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${body}
</main>
${data === undefined ? "" : scripts(data)}
</body>
</html>
`;
}

const scripts = (data: PageData): string => `<script type="application/json" id="page-data">${embedJson(data)}</script>
<script>${script(library())}</script>
<script>${script(new URL("browser/page.js", import.meta.url))}</script>`;

/** Resolved by use: a clone that only serves hasn't got it. */
const library = (): string => createRequire(import.meta.url).resolve("echarts/dist/echarts.min.js");

/**
 * Content of a script element. There `</script` ends the element wherever it stands; with a backslash the text is the
 * same to JavaScript, and doesn't end the element.
 */
const script = (file: string | URL): string => readFileSync(file, "utf8").replace(/<\/(?=script)/gi, "<\\/");

export interface Column<Row> {
  readonly title: string;
  /** Numbers are right-aligned. */
  readonly cell: (row: Row, index: number) => number | string | Html;
}

/** Text that is HTML already. */
export interface Html {
  readonly html: string;
}

export function htmlTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  attributes: (row: Row, index: number) => string = () => "",
): string {
  const isNumber = ({ cell }: Column<Row>): boolean => rows.length > 0 && typeof cell(rows[0]!, 0) === "number";
  const head = columns
    .map((column) => `<th${isNumber(column) ? ' class="number"' : ""}>${escapeHtml(column.title)}</th>`)
    .join("");
  const body = rows.map((row, index) => {
    const cells = columns.map(({ cell }) => tableCell(cell(row, index))).join("");
    return `<tr${attributes(row, index)}>${cells}</tr>`;
  });
  return `<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>\n${body.join("\n")}\n</tbody></table></div>`;
}

function tableCell(value: number | string | Html): string {
  if (typeof value === "number") return `<td class="number">${number(value)}</td>`;
  return `<td>${typeof value === "string" ? escapeHtml(value) : value.html}</td>`;
}

export const chartBox = (id: string, height: number): string =>
  `<div class="chart" id="${id}" style="height:${height}px"></div>`;

/** Formats a number with commas between thousands, and few digits: 12,345; 123.4; 1.23. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "∞";
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : 2;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

export const percent = (share: number): string => `${number(100 * share)} %`;

const STYLE = `
:root { color-scheme: light; }
body { margin: 0; background: #f6f7f8; color: #20262c; font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 24px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 6px; }
p { margin: 4px 0; } .note { color: #5f6b76; } .cut { color: #a3342f; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.tile { background: #fff; border: 1px solid #dfe3e7; border-radius: 6px; padding: 10px 14px; min-width: 120px; }
.tile b { display: block; font-size: 20px; font-weight: 600; } .tile span { color: #5f6b76; font-size: 12px; }
.chart { background: #fff; border: 1px solid #dfe3e7; border-radius: 6px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 16px; }
.wide { overflow: auto; max-height: 460px; } thead th { position: sticky; top: 0; } table { border-collapse: collapse; background: #fff; width: 100%; }
th, td { padding: 4px 8px; border-bottom: 1px solid #e6e9ec; text-align: left; white-space: nowrap; }
th { background: #eef1f3; font-weight: 600; } th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr[data-model] { cursor: pointer; } tr.chosen td { background: #e8f0fa; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 7px; vertical-align: -1px; }
figure { margin: 0 0 28px; } figure svg { width: 100%; height: auto; background: #fff; border: 1px solid #dfe3e7; border-radius: 6px; }
td code { white-space: normal; display: inline-block; min-width: 340px; }
code { background: #eceff1; padding: 1px 4px; border-radius: 3px; overflow-wrap: anywhere; }
`;
