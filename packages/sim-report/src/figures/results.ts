/**
 * Draws figures into a folder: an SVG for each picture, results.json, results.md, and results.html with the pictures in
 * it.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { escapeHtml, htmlPage, htmlTable, number } from "../html.ts";
import { toSvg } from "../svg.ts";
import { type Bench, type Figure, type Row, type Scale, commandOfRow } from "./figure.ts";

export interface WriteFiguresOptions {
  readonly figures: readonly Figure[];
  readonly bench: Bench;
  readonly scale: Scale;
  /** Made where it doesn't exist. */
  readonly folder: string;
  /** The command line, for the head of the page. */
  readonly source: string;
  /** Takes the figures that the folder's results.json has already as drawn, and draws the others. */
  readonly resume?: boolean;
  readonly onFigure?: (figure: Figure, files: readonly string[]) => void;
}

/** As in results.json. */
interface Drawn {
  readonly name: string;
  readonly title: string;
  readonly paper: string;
  readonly files: readonly string[];
  readonly rows: readonly DrawnRow[];
}
type DrawnRow = Pick<Row, "what" | "policy" | "ours" | "unit" | "paper"> & { readonly command: string };
interface Results {
  readonly source: string;
  readonly scale: Scale["name"];
  readonly figures: readonly Drawn[];
}

/**
 * Results are written anew after every figure, so that a run that is stopped leaves what it has, and another can go on
 * with it. The folder is there.
 *
 * @throws Error when it should go on with results of another scale
 */
export async function writeFigures(options: WriteFiguresOptions): Promise<void> {
  const { figures, bench, scale, folder, onFigure } = options;
  const before = options.resume === true ? readResults(folder, scale) : undefined;
  const source = before?.source ?? options.source;
  const known = new Map(before?.figures.map((drawn) => [drawn.name, drawn]));
  for (const figure of figures) {
    let drawn = known.get(figure.name);
    if (drawn === undefined) known.set(figure.name, (drawn = await draw(figure, bench, scale, folder)));
    const results: Results = { source, scale: scale.name, figures: [...known.values()] };
    writeFileSync(join(folder, "results.json"), `${JSON.stringify(results, null, 2)}\n`);
    writeFileSync(join(folder, "results.md"), asMarkdown(results));
    writeFileSync(join(folder, "results.html"), asHtml(results, folder));
    onFigure?.(figure, drawn.files);
  }
}

async function draw(figure: Figure, bench: Bench, scale: Scale, folder: string): Promise<Drawn> {
  const { name, title, paper } = figure;
  const { charts, rows } = await figure.draw(bench, scale);
  for (const chart of charts) writeFileSync(join(folder, `${chart.name}.svg`), toSvg(chart.option, chart.size));
  return {
    ...{ name, title, paper, files: charts.map((chart) => `${chart.name}.svg`) },
    rows: rows.map((row) => {
      const { what, policy, ours, unit, paper } = row;
      return { what, policy, ours, unit, paper, command: commandOfRow(row, scale) };
    }),
  };
}

function readResults(folder: string, scale: Scale): Results | undefined {
  const path = join(folder, "results.json");
  if (!existsSync(path)) return undefined;
  const results = JSON.parse(readFileSync(path, "utf8")) as Results;
  if (results.scale === scale.name) return results;
  throw new Error(`${path} has results of scale '${results.scale}', not '${scale.name}': draw them anew, or elsewhere`);
}

const HEAD = "Results of the simulator";
const QUICK_NOTE =
  "Drawn with --quick: few points and runs of seconds, which show that a figure can be drawn, and are not to be quoted.";

function asMarkdown({ figures, scale, source }: Results): string {
  const parts = [`# ${HEAD}`, `Made by \`${source}\`.`, ...(scale === "quick" ? [QUICK_NOTE] : [])];
  for (const { title, paper, files, rows } of figures) {
    const table = rows.map((row) => {
      const cells = [row.what, row.policy, valueOf(row), row.paper, `\`${row.command}\``];
      return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
    });
    parts.push(`## ${title}`, `The paper's ${paper}.`);
    parts.push(...files.map((file) => `![${title}](${file})`));
    parts.push(["| what | policy | ours | paper | command |", "|---|---|---|---|---|", ...table].join("\n"));
  }
  return `${parts.join("\n\n")}\n`;
}

function asHtml({ figures, scale, source }: Results, folder: string): string {
  const parts = [`<h1>${HEAD}</h1>`, `<p class="note"><code>${escapeHtml(source)}</code></p>`];
  if (scale === "quick") parts.push(`<p class="cut">${QUICK_NOTE}</p>`);
  for (const { name, title, paper, files, rows } of figures) {
    parts.push(`<h2 id="${name}">${escapeHtml(title)}</h2>`);
    parts.push(`<p class="note">The paper's ${escapeHtml(paper)}.</p>`);
    const svgs = files.map((file) => readFileSync(join(folder, file), "utf8"));
    parts.push(...svgs.map((svg, i) => `<figure>${apart(svg, `${name}-${i}`)}</figure>`));
    parts.push(rowTable(rows));
  }
  return htmlPage({ title: HEAD, body: parts.join("\n"), data: undefined });
}

const rowTable = (rows: readonly DrawnRow[]): string =>
  htmlTable(rows, [
    { title: "what", cell: ({ what }) => what },
    { title: "policy", cell: ({ policy }) => policy },
    { title: "ours", cell: (row) => valueOf(row) },
    { title: "paper", cell: ({ paper }) => paper },
    { title: "command", cell: ({ command }) => ({ html: `<code>${escapeHtml(command)}</code>` }) },
  ]);

const valueOf = ({ ours, unit }: DrawnRow): string =>
  ours === null ? "none" : unit === "×" ? `${number(ours)}×` : `${number(ours)} ${unit}`;

/** Drawings number their clip paths and classes each from 0; in one document they would take one another's. */
const apart = (svg: string, prefix: string): string => svg.replaceAll(/zr\d+-/g, (id) => `${prefix}-${id}`);
