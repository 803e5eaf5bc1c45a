/** Draws figures into a folder: an SVG for each picture, results.json, results.md, and results.html with the pictures in it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { escapeHtml, htmlPage, htmlTable, number } from "../html.ts";
import { toSvg } from "../svg.ts";
import { type Bench, type Drawing, type Figure, type Scale, commandOf } from "./figure.ts";

export interface WriteFiguresOptions {
  readonly figures: readonly Figure[];
  readonly bench: Bench;
  readonly scale: Scale;
  /** Made where it doesn't exist. */
  readonly folder: string;
  /** The command line, for the head of the page. */
  readonly source: string;
  readonly onFigure?: (figure: Figure, files: readonly string[]) => void;
}

interface Drawn {
  readonly figure: Figure;
  readonly files: readonly string[];
  readonly svgs: readonly string[];
  readonly rows: Drawing["rows"];
}

/** Results are written anew after every figure, so that a run that is stopped leaves what it has. */
export async function writeFigures(options: WriteFiguresOptions): Promise<void> {
  const { figures, bench, scale, folder, onFigure } = options;
  mkdirSync(folder, { recursive: true });
  const done: Drawn[] = [];
  for (const figure of figures) {
    const { charts, rows } = await figure.draw(bench, scale);
    const svgs = charts.map(({ option }) => toSvg(option));
    const files = charts.map(({ name }) => `${name}.svg`);
    for (const [i, svg] of svgs.entries()) writeFileSync(join(folder, files[i]!), svg);
    done.push({ figure, files, svgs, rows });
    writeFileSync(join(folder, "results.json"), `${JSON.stringify(asJson(done, options), null, 2)}\n`);
    writeFileSync(join(folder, "results.md"), asMarkdown(done, options));
    writeFileSync(join(folder, "results.html"), asHtml(done, options));
    onFigure?.(figure, files);
  }
}

type Context = Pick<WriteFiguresOptions, "scale" | "source">;

const asJson = (done: readonly Drawn[], { scale, source }: Context) => ({
  source,
  scale: scale.name,
  figures: done.map(({ figure: { name, title, paper }, files, rows }) => ({
    ...{ name, title, paper, files },
    rows: rows.map(({ what, policy, ours, unit, paper, verb, point }) => {
      return { what, policy, ours, unit, paper, command: commandOf(verb, point, scale) };
    }),
  })),
});

const HEAD = "Results of the simulator";
const QUICK_NOTE =
  "Drawn with --quick: few points and runs of seconds, which show that a figure can be drawn, and are not to be quoted.";

function asMarkdown(done: readonly Drawn[], { scale, source }: Context): string {
  const parts = [`# ${HEAD}`, `Made by \`${source}\`.`, ...(scale.name === "quick" ? [QUICK_NOTE] : [])];
  for (const { figure, files, rows } of done) {
    const table = rows.map((row) => {
      const cells = [row.what, row.policy, valueOf(row), row.paper, `\`${commandOf(row.verb, row.point, scale)}\``];
      return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
    });
    parts.push(`## ${figure.title}`, `The paper's ${figure.paper}.`);
    parts.push(...files.map((file) => `![${figure.title}](${file})`));
    parts.push(["| what | policy | ours | paper | command |", "|---|---|---|---|---|", ...table].join("\n"));
  }
  return `${parts.join("\n\n")}\n`;
}

function asHtml(done: readonly Drawn[], { scale, source }: Context): string {
  const parts = [`<h1>${HEAD}</h1>`, `<p class="note"><code>${escapeHtml(source)}</code></p>`];
  if (scale.name === "quick") parts.push(`<p class="cut">${QUICK_NOTE}</p>`);
  for (const { figure, svgs, rows } of done) {
    parts.push(`<h2 id="${figure.name}">${escapeHtml(figure.title)}</h2>`);
    parts.push(`<p class="note">The paper's ${escapeHtml(figure.paper)}.</p>`);
    parts.push(...svgs.map((svg, i) => `<figure>${apart(svg, `${figure.name}-${i}`)}</figure>`));
    parts.push(rowTable(rows, scale));
  }
  return htmlPage({ title: HEAD, body: parts.join("\n"), data: undefined });
}

const rowTable = (rows: Drawing["rows"], scale: Scale): string =>
  htmlTable(rows, [
    { title: "what", cell: ({ what }) => what },
    { title: "policy", cell: ({ policy }) => policy },
    { title: "ours", cell: (row) => valueOf(row) },
    { title: "paper", cell: ({ paper }) => paper },
    {
      title: "command",
      cell: ({ verb, point }) => ({ html: `<code>${escapeHtml(commandOf(verb, point, scale))}</code>` }),
    },
  ]);

const valueOf = ({ ours, unit }: Drawing["rows"][number]): string =>
  ours === null ? "none" : unit === "×" ? `${number(ours)}×` : `${number(ours)} ${unit}`;

/** Drawings number their clip paths and classes each from 0; in one document they would take one another's. */
const apart = (svg: string, prefix: string): string => svg.replaceAll(/zr\d+-/g, (id) => `${prefix}-${id}`);
