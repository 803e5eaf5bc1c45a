/** Goodput against SLO, popularity and burstiness: Figure 11's four panels. */
import { type Figure, pick, baselines } from "./figure.ts";
import { goodputCurves, goodputRow, searchAll } from "./searches.ts";

const PANELS = [
  { name: "equal-poisson", text: "equally popular, Poisson arrivals", set: { popularity: "equal", shape: "1" } },
  { name: "zipf-poisson", text: "Zipf 0.9 popularity, Poisson arrivals", set: { popularity: "zipf:0.9", shape: "1" } },
  { name: "equal-bursty", text: "equally popular, Gamma 0.05 arrivals", set: { popularity: "equal", shape: "0.05" } },
  {
    name: "zipf-bursty",
    text: "Zipf 0.9 popularity, Gamma 0.05 arrivals",
    set: { popularity: "zipf:0.9", shape: "0.05" },
  },
];

export const slo: Figure = {
  name: "slo",
  title: "Goodput against SLO, popularity and burstiness",
  paper: "Figure 11: Symphony gains most where SLOs are tight; Nexus suffers from bursts; loose SLOs are easy for all",
  draw: async (bench, scale) => {
    const slos = pick(scale, [15, 20, 25, 30, 40, 50, 75, 100], [25, 100]);
    const durationS = pick(scale, 11, scale.durationS);
    const drawn = await Promise.all(
      PANELS.map(async ({ name, text, set }) => {
        const places = slos.map((sloMs) => ({ x: sloMs, set: { sloMs: String(sloMs), ...set } }));
        const series = await searchAll(bench, { file: "figure11", places, systems: baselines(), durationS });
        const note = `20 models like ResNet50, 32 accelerators; ${text}`;
        const x = { name: "SLO (ms)", min: 0 };
        const rows = series.flat().map((found) => goodputRow(found, `${text}, SLO ${found.x} ms`));
        return { chart: { name: `slo-${name}`, option: goodputCurves(series, { title: slo.title, note, x }) }, rows };
      }),
    );
    return { charts: drawn.map(({ chart }) => chart), rows: drawn.flatMap(({ rows }) => rows) };
  },
};
