/**
 * `npm run bench:planning` prints results and run times of the planner's cores. It compares them with those of
 * docs/algorithms.md (C, D6, E3) and of papers.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gpuletHeadlines, gpuletPairs } from "./headlines/gpulet.ts";
import { nexusHeadlines } from "./headlines/nexus.ts";
import { idealShare } from "./ideal-share.ts";
import { packing, partitioning, placing } from "./measurements.ts";
import { type PlanningResult, renderPlanning } from "./planning-text.ts";
import { imbalanceSvg, resultsPage } from "./results-page.ts";
import { readArguments } from "../arguments.ts";

const PARTS = ["subclusters", "packing", "fractions", "ideal", "gpulet", "nexus"] as const;

const HELP = `Usage: npm run bench:planning -- [options]

  subclusters    800 models over 20: the gap that the local search leaves, of greedy and of random; after rates have drifted, within budgets;
                 how uneven random, greedy and searched plans are over many draws (Symphony's Figure 16)
  packing        1,000 streams; the next epoch's plan after rates have changed
  fractions      gpulet's 19,682 scenarios: how many fit on one to four accelerators, by way of partitioning
  ideal          the same beside an exhaustive search over splits and assignments (gpulet's Figure 15)
  gpulet         its headlines on synthetic profiles: throughput of fractions, violations, interference (Figures 5, 10, 12, 13 and 16)
  nexus          squishy packing against batch-oblivious placement on five mixes (its Figure 15)

  --json                  print JSON instead of tables
  --out <folder>          write README.md, results.json and imbalance.svg there
  --seconds 2             of each search, of processor time
  --draws 20              of imbalance
  --executors 4           the most accelerators of the scenarios
  --every 1               only each so many-th scenario
  --simulated 20          seconds of each simulated run of gpulet and nexus
  --only <parts>          ${PARTS.join(", ")}, separated by commas
  --help                  this text
`;

const values = readArguments(HELP, {
  json: { type: "boolean", default: false },
  out: { type: "string" },
  seconds: { type: "string", default: "2" },
  draws: { type: "string", default: "20" },
  executors: { type: "string", default: "4" },
  every: { type: "string", default: "1" },
  simulated: { type: "string", default: "20" },
  only: { type: "string", default: PARTS.join(",") },
});
const SEEDS = [1, 2, 3];

function fail(text: string): never {
  process.stderr.write(`bench:planning: ${text}\n`);
  process.exit(2);
}

function positive(flag: string, text: string): number {
  const number = Number(text);
  return Number.isFinite(number) && number > 0 ? number : fail(`--${flag} ${text} is not a number above 0`);
}

function main(): void {
  const [seconds, simulated] = [positive("seconds", values.seconds), positive("simulated", values.simulated)];
  const [draws, executors, every] = (["draws", "executors", "every"] as const).map((flag) =>
    Math.ceil(positive(flag, values[flag])),
  ) as [number, number, number];
  const asked = new Set(values.only.split(","));
  for (const part of asked)
    if (!PARTS.some((known) => known === part)) fail(`there is no part ${part}; there are ${PARTS.join(", ")}`);
  const runs = { seconds: simulated, seeds: SEEDS };
  const result: PlanningResult = {
    ...(asked.has("subclusters") && { subClusters: placing({ seconds, draws }) }),
    ...(asked.has("packing") && { packing: packing() }),
    ...(asked.has("fractions") && { fractions: partitioning({ executors, every }) }),
    ...(asked.has("ideal") && { ideal: idealShare({ executors, every }) }),
    ...(asked.has("gpulet") && { gpulet: { ...gpuletHeadlines(runs), pairs: gpuletPairs() } }),
    ...(asked.has("nexus") && {
      nexus: { all: nexusHeadlines({ ...runs, judged: "all" }), worst: nexusHeadlines({ ...runs, judged: "worst" }) },
    }),
  };
  process.stdout.write(`${values.json ? JSON.stringify(result) : renderPlanning(result)}\n`);
  if (values.out === undefined) return;
  const command = `npm run bench:planning -- ${process.argv.slice(2).join(" ")}`;
  mkdirSync(values.out, { recursive: true });
  writeFileSync(join(values.out, "README.md"), resultsPage(result, command));
  writeFileSync(join(values.out, "results.json"), `${JSON.stringify(result, undefined, 2)}\n`);
  if (result.subClusters !== undefined)
    writeFileSync(join(values.out, "imbalance.svg"), imbalanceSvg(result.subClusters.imbalance));
}

main();
