/** Results as a page with the command that made them, and the imbalance of plans as a picture. */
import { FULL } from "./headlines/gpulet-profiles.ts";
import { gpuletRows, gpuletSummaryRows, idealRows, nexusRows, pairRows } from "./headlines-text.ts";
import type { Imbalance, Placing } from "./measurements.ts";
import { type PlanningResult, quantile } from "./planning-text.ts";

type Rows = readonly (readonly string[])[];

const markdown = ([head, ...rows]: Rows): string =>
  [`| ${head!.join(" | ")} |`, `|${"---|".repeat(head!.length)}`, ...rows.map((row) => `| ${row.join(" | ")} |`)].join(
    "\n",
  );

const FULL_TEXT = Object.entries(FULL)
  .map(([name, full]) => `${name} ${full}`)
  .join(", ");

export function resultsPage({ subClusters, ideal, gpulet, nexus }: PlanningResult, command: string): string {
  const sections = [
    "# Planning: figures of papers, and ours",
    `All of it is made by \`${command}\`, which also writes [results.json](results.json). Plans are the planner's own; runs are simulated (Poisson arrivals, three seeds).`,
    ...(subClusters === undefined ? [] : subClusterSections(subClusters)),
    ...(ideal === undefined
      ? []
      : [
          "## gpulet, Figure 15: scenarios that an ideal scheduler fits",
          `Nine models at 0, 100 or 200 requests per second, ${ideal.executors} accelerators, with interference, on the profiles of docs/algorithms.md, D6. The exhaustive search looks at every split, every assignment of models (200 requests per second also as twice 100) to parts and every duty cycle; gpulet's ideal tries every split, and places greedily. gpulet fits 2.6 % fewer than its ideal.`,
          markdown(idealRows(ideal)),
        ]),
    ...(gpulet === undefined
      ? []
      : [
          "## gpulet, Figures 12, 13 and 16: throughput and violations",
          `Requests per second on ${gpulet.executors} accelerators with at most 1 % dropped or late. Profiles are synthetic: SLOs of gpulet's Table 4, the numbers of docs/algorithms.md, D6, and the part of an accelerator that a batch of 32 can fill at all (${FULL_TEXT}). Models of a workload have equal rates; the game's models are within 108 ms, and traffic's 202 ms are split over its stages (C5). Bad rates are those at the rate that the fractions carry: of their plan, and of a plan for the same rate that ignores interference.`,
          markdown(gpuletRows(gpulet)),
          `Interference is fitted on ${gpulet.trainedOn.toLocaleString("en-US")} of ${(gpulet.trainedOn + gpulet.testedOn).toLocaleString("en-US")} synthetic measurements and tested on the rest. What is behind them, and slows the runs, is D6's line, a bend where bandwidth is crowded, 4 % that are peculiar to a pair and 4 % of noise: so errors of about the paper's size are by construction, and what is seen is that plans bear them.`,
          markdown(gpuletSummaryRows(gpulet)),
          "Whether the profiles are like the paper's is seen in its Figure 5, by planning alone on two accelerators:",
          markdown(pairRows(gpulet)),
        ]),
    ...(nexus === undefined
      ? []
      : [
          "## Nexus, Figure 15: squishy packing against batch-oblivious placement",
          "16 sessions on 8 accelerators, profiles of Symphony's zoo on a 1080Ti; where the paper leaves it open, SLOs are 50, 60, … 200 ms, mixed rates are within 100 ms, and the eight architectures are those of the zoo that fit. The batch-oblivious baseline gives each session a share of the cluster by rate over throughput, and a share the accelerator with most left. Both run on the same nodes, with early drop. Nexus: up to +64 %, most for mixed rates. At most 1 % is bad of all requests, as in the paper, or of each session's.",
          markdown(nexusRows(nexus)),
        ]),
  ];
  return `${sections.join("\n\n")}\n`;
}

function subClusterSections({ first, afterDrift, imbalance }: Placing): string[] {
  const gap = (value: number | null): string => (value === null ? "infeasible" : value.toExponential(1));
  const draws = imbalance[0]!.rate.length;
  return [
    "## Sub-clusters",
    "Objective over mean rate: the relative gaps of rate and memory together, after so many seconds of one processor.",
    markdown([
      ["models", "sub-clusters", "random", "greedy", "search", "seconds"],
      ...first.map((one) => [
        ...[String(one.models), String(one.subClusters), gap(one.random), gap(one.greedy), gap(one.search)],
        one.cpuS.toFixed(1),
      ]),
    ]),
    "800 models over 20 after rates drifted (times lognormal 0.5), within a share of the cost of moving everything:",
    markdown([
      ["budget", "before", "after", "models moved", "of the budget", "seconds"],
      ...afterDrift.map((one) => [
        ...[`${100 * one.budgetShare} %`, gap(one.before), gap(one.search), String(one.moved)],
        ...[`${(100 * one.spent).toFixed(1)} %`, one.cpuS.toFixed(1)],
      ]),
    ]),
    "## Symphony, Figure 16: imbalance",
    `(max − min)/mean over the sub-clusters, 800 models over 20, ${draws} draws; searches of 4,000,000 proposals, some 0.4 s of one processor.`,
    "![Share of draws by imbalance of rates and of memory, for random, greedy and searched plans](imbalance.svg)",
    markdown([
      ["plan", "rate p10", "p50", "p90", "memory p10", "p50", "p90"],
      ...imbalance.map(({ plan, rate, memory }) => [
        plan,
        ...[rate, memory].flatMap((values) => [0.1, 0.5, 0.9].map((at) => quantile(values, at).toPrecision(2))),
      ]),
    ]),
  ];
}

const [WIDTH, HEIGHT, MARGIN] = [720, 360, 56];
const DECADES = { low: -5, high: 0.5 } as const;
const COLOURS = { random: "#b5452f", greedy: "#c28a1c", search: "#2a6f97" } as const;

/** A CDF: the share of all draws whose imbalance is at most so much, on a logarithmic axis. Memory is dashed. */
export function imbalanceSvg(imbalance: readonly Imbalance[]): string {
  const { low, high } = DECADES;
  const x = (value: number): number =>
    MARGIN + ((Math.log10(Math.max(10 ** low, value)) - low) / (high - low)) * (WIDTH - 2 * MARGIN);
  const y = (share: number): number => HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN);
  const path = (values: readonly number[]): string =>
    values
      .map(
        (value, i) =>
          `${i === 0 ? `M${x(value).toFixed(1)},${y(0)}` : ""}L${x(value).toFixed(1)},${y((i + 1) / values.length).toFixed(1)}`,
      )
      .join("");
  const text = (at: readonly [number, number], words: string, anchor = "middle", colour = "#333"): string =>
    `<text x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" text-anchor="${anchor}" fill="${colour}">${words}</text>`;
  const line = (x1: number, y1: number, x2: number, y2: number): string =>
    `<path d="M${x1.toFixed(1)},${y1.toFixed(1)}L${x2.toFixed(1)},${y2.toFixed(1)}" stroke="#ddd"/>`;
  const ticks = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="none">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...ticks.map((tick) => line(x(tick), y(0), x(tick), y(1)) + text([x(tick), y(0) + 18], String(tick))),
    ...[0, 0.5, 1].map(
      (share) =>
        line(x(0), y(share), WIDTH - MARGIN, y(share)) + text([x(0) - 8, y(share) + 4], `${100 * share} %`, "end"),
    ),
    text([WIDTH / 2, HEIGHT - 12], "imbalance, (max − min)/mean: rate solid, memory dashed"),
    text([WIDTH / 2, 24], "Share of draws by imbalance of 800 models over 20 sub-clusters"),
    ...imbalance.flatMap(({ plan, rate, memory }, i) => [
      `<path d="${path(rate)}" stroke="${COLOURS[plan]}" stroke-width="2"/>`,
      `<path d="${path(memory)}" stroke="${COLOURS[plan]}" stroke-width="2" stroke-dasharray="5 4"/>`,
      text([MARGIN + 10, MARGIN + 16 * (i + 1)], plan, "start", COLOURS[plan]),
    ]),
    "</svg>",
  ].join("\n");
}
