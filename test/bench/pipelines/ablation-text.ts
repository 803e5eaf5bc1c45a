/** The ablation as Markdown and as a picture. */
import { type AblationRow, HOST_MS, type Part, STUDIES, SYSTEMS } from "./ablation.ts";

const NAMES: Readonly<Record<Part, string>> = {
  prefixes: "prefix batching",
  packing: "packing",
  drop: "early drop",
  overlap: "overlap",
  split: "query split",
};
export const nameOf = (off: readonly Part[]): string =>
  off.length === 0 ? "all on" : `without ${off.map((part) => NAMES[part]).join(", ")}`;
const fps = (value: number): string => value.toFixed(value < 100 ? 1 : 0);
const change = (now: number, full: number): string => {
  const percent = 100 * (now / full - 1);
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent).toFixed(1)} %`;
};

export function renderAblation(rows: readonly AblationRow[], seeds: readonly number[]): string {
  const host = Object.entries(HOST_MS).map(([model, ms]) => `${model} ${ms} ms`);
  const parts = STUDIES.flatMap(({ name, paper, perFrame }) => {
    const own = rows.filter(({ study }) => study === name);
    const full = own.find(({ off }) => off.length === 0);
    if (full === undefined) return [];
    const cells = own.map(({ off, fps: found }) =>
      [nameOf(off), ...SYSTEMS.flatMap((one) => [fps(found[one]), change(found[one], full.fps[one])])].join(" | "),
    );
    const heads = "| | Nexus-like | | ours | |\n| --- | --- | --- | --- | --- |";
    const frames = perFrame === 1 ? "" : ` A frame is ${perFrame} requests.`;
    const title = `### ${name[0]!.toUpperCase()}${name.slice(1)}`;
    return [`${title}\n\n${paper}.${frames}\n\n${heads}\n${cells.map((one) => `| ${one} |`).join("\n")}`];
  });
  return `Frames per second with at most 1 % of any model's, or of the pipeline's, requests refused or late, on 16 accelerators, Poisson, seeds ${seeds.join(", ")}: everything on; each part off by
itself; then one after the other, as the paper does it. Beside the accelerator an input takes ${host.join(", ")} (ours: the paper prints none): of its SLO where that
overlaps with other batches, of the accelerator where it doesn't.

${parts.join("\n\n")}

### What it says

- In the game, overlap is worth much and early drop little, as in the paper; how much overlap is worth depends on the host's times, which are ours.
- Prefix batching is worth far more to the Nexus-like scheduler than to ours: small batches of many variants cost it accelerators, while ours can put any of them on any accelerator.
- Packing is worth nothing to two large families, which fill whole accelerators anyway, and most at rush hour with 16 accelerators for three unlike stages.
- The planned split gains 2 % here, not the paper's 4 to 17 %: the zoo's profiles of these models are flat, and the paper doesn't print its own.
- One part less is sometimes a little better (traffic, without packing and early drop, then overlap): whole accelerators are dealt out anew, and round up elsewhere.
- Ours without prefix batching and packing collapses: one accelerator for three to seven models of their own, each of which waits for the last moment, loses more than 1 % of some model's requests to moments that coincide, at any load
  (the same with \`eager\` dispatch loses nothing at 15,000 requests a second). Deferring lives on a pool: with packing it has one, whatever the models.`;
}

const [WIDTH, BAR, GAP, LEFT] = [760, 11, 8, 300] as const;
const COLOURS = { nexus: "#c28a1c", default: "#2a6f97" } as const;

/** Bars, scaled in each study to its largest. */
export function ablationSvg(rows: readonly AblationRow[]): string {
  const drawn: string[] = [];
  let y = 40;
  for (const { name } of STUDIES) {
    const own = rows.filter(({ study }) => study === name);
    if (own.length === 0) continue;
    const most = Math.max(...own.flatMap((row) => SYSTEMS.map((one) => row.fps[one])));
    drawn.push(text(12, (y += 18), `${name}, frames per second`, "start", "#000"));
    y += 8;
    for (const row of own) {
      drawn.push(text(LEFT - 8, y + BAR + 3, nameOf(row.off), "end", "#333"));
      for (const one of SYSTEMS) {
        const width = (row.fps[one] / most) * (WIDTH - LEFT - 60);
        drawn.push(
          `<rect x="${LEFT}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" fill="${COLOURS[one]}"/>`,
          text(LEFT + width + 5, y + BAR - 1.5, fps(row.fps[one]), "start", "#333"),
        );
        y += BAR;
      }
      y += GAP;
    }
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 12}" font-family="sans-serif" font-size="11">`,
    `<rect width="${WIDTH}" height="${y + 12}" fill="#fff"/>`,
    text(12, 24, "Nexus-like", "start", COLOURS.nexus),
    text(84, 24, "ours", "start", COLOURS.default),
    ...drawn,
    "</svg>\n",
  ].join("\n");
}

const text = (x: number, y: number, words: string, anchor: "start" | "end", colour: string): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="${colour}">${words}</text>`;
