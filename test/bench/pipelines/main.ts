/**
 * `npm run bench:pipelines`: Nexus' figures on queries and on dropping, with its own scheduler in the simulator and
 * with ours.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ablation } from "./ablation.ts";
import { ablationSvg, renderAblation } from "./ablation-text.ts";
import { type DropRow, type SplitRow, dropping, splitting } from "./measurements.ts";
import { renderPipelines } from "./pipelines-text.ts";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:pipelines -- [options]

Goodput by bisection, mean of the seeds: Nexus' Figure 16 (an SLO planned over two stages against an even split, on 8 accelerators) and its traffic example, its
Figure 9 (early against lazy drop on one accelerator). With --ablation instead: its game and traffic examples (section 7.3, Figures 10 and 11) with prefix batching,
packing, early drop, overlap and query split turned off.

  --ablation              the parts turned off one at a time, and one after the other
  --only game             of the ablation only examples whose name begins so: game, traffic
  --json                  print JSON instead of tables
  --out <folder>          write README.md and results.json there; of the ablation, ablation.md, .json and .svg
  --seeds 1,2,3           of the arrivals
  --help                  this text
`;

const values = readArguments(HELP, {
  ablation: { type: "boolean", default: false },
  only: { type: "string" },
  json: { type: "boolean", default: false },
  out: { type: "string" },
  seeds: { type: "string", default: "1,2,3" },
});

export interface PipelinesResult {
  readonly seeds: readonly number[];
  readonly splits: readonly SplitRow[];
  readonly drops: readonly DropRow[];
}

async function main(): Promise<void> {
  const seeds = values.seeds.split(",").map(Number);
  if (seeds.length === 0 || !seeds.every((seed) => Number.isInteger(seed) && seed >= 0)) {
    process.stderr.write(`bench:pipelines: --seeds ${values.seeds} are no whole numbers, as in --seeds 1,2,3\n`);
    process.exit(2);
  }
  const onStep = (text: string): void => void process.stderr.write(`${text}\n`);
  if (values.ablation) return runAblation(seeds, onStep);
  const result: PipelinesResult = {
    seeds,
    splits: await splitting(seeds, onStep),
    drops: await dropping(seeds, onStep),
  };
  process.stdout.write(`${values.json ? JSON.stringify(result) : renderPipelines(result)}\n`);
  if (values.out === undefined) return;
  mkdirSync(values.out, { recursive: true });
  const command = `npm run bench:pipelines -- --out ${values.out} --seeds ${values.seeds}`;
  writeFileSync(join(values.out, "results.json"), `${JSON.stringify(result, undefined, 1)}\n`);
  const head = `# Pipelines: Nexus' figures, and ours\n\nAll of it is made by \`${command}\`, which also writes [results.json](results.json). Nexus' ablation has [its own page](ablation.md).`;
  writeFileSync(join(values.out, "README.md"), `${head}\n\n${renderPipelines(result)}\n`);
}

async function runAblation(seeds: readonly number[], onStep: (text: string) => void): Promise<void> {
  const rows = await ablation({ seeds, onStep, only: values.only });
  const body = renderAblation(rows, seeds);
  process.stdout.write(`${values.json ? JSON.stringify({ seeds, rows }) : body}\n`);
  if (values.out === undefined) return;
  mkdirSync(values.out, { recursive: true });
  const command = `npm run bench:pipelines -- --ablation --out ${values.out} --seeds ${values.seeds}`;
  const head = `# Nexus' ablation\n\nMade by \`${command}\`, which also writes [ablation.json](ablation.json).`;
  const picture = "![Frames per second of each example with parts turned off](ablation.svg)";
  writeFileSync(join(values.out, "ablation.json"), `${JSON.stringify({ seeds, rows }, undefined, 1)}\n`);
  writeFileSync(join(values.out, "ablation.svg"), ablationSvg(rows));
  writeFileSync(join(values.out, "ablation.md"), `${head}\n\n${body}\n\n${picture}\n`);
}

await main();
