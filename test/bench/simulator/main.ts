/** `npm run bench:simulator`: simulated requests per second of wall time on one core. */
import { profiled } from "../scheduler/cpu-profile.ts";
import { measure } from "./measurement.ts";
import { type Shape, boundOf } from "./workload.ts";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:simulator -- [options]

Whole simulations (workload, schedulers, judge), policy 'default', no listener:
  table 2    ResNet50 of the paper's table 2: 1 model, 8 accelerators, 5,000 requests/s
  small      the same at 0.85 of the staggered bound
  large      400 such models on 1,000 accelerators at 0.85 of the bound; its cost per request against small's

  --json               print JSON instead of a table
  --requests 1000000   requests per run
  --repeat 3           runs of each, in turn; the least time counts
  --profile            also print the functions that the time goes into
  --help               this text
`;

const values = readArguments(HELP, {
  json: { type: "boolean", default: false },
  requests: { type: "string", default: "1000000" },
  repeat: { type: "string", default: "3" },
  profile: { type: "boolean", default: false },
});

function positive(text: string): number {
  const number = Number(text);
  if (Number.isFinite(number) && number > 0) return number;
  process.stderr.write(`bench:simulator: '${text}' is not a positive number\n`);
  process.exit(2);
}

const LOAD = 0.85;
const at = (models: number, gpus: number): Shape => ({ models, gpus, rate: Math.round(LOAD * boundOf(gpus)) });
const SHAPES = {
  table2: { models: 1, gpus: 8, rate: 5000 },
  small: at(1, 8),
  large: at(400, 1000),
} satisfies Record<string, Shape>;

async function main(): Promise<void> {
  const work = () => measure(SHAPES, positive(values.requests), positive(values.repeat));
  const { result, hot } = values.profile ? await profiled(work, 20) : { result: work(), hot: [] };
  const costOfSize = {
    byWall: result.small.requestsPerWallSecond / result.large.requestsPerWallSecond,
    byCpu: result.small.requestsPerCpuSecond / result.large.requestsPerCpuSecond,
  };
  if (values.json) return void process.stdout.write(`${JSON.stringify({ ...result, costOfSize })}\n`);
  row(["", "models", "accelerators", "offered/s", "bad", "requests/s", "requests/CPU s"]);
  for (const [name, m] of Object.entries(result)) {
    const bad = `${(100 * m.badRate).toFixed(2)} %`;
    row([name, m.models, m.gpus, m.rate, bad, m.requestsPerWallSecond, m.requestsPerCpuSecond]);
  }
  const { byWall, byCpu } = costOfSize;
  process.stdout.write(
    `cost of a request, large against small: ${byWall.toFixed(2)} by the clock, ${byCpu.toFixed(2)} by CPU\n`,
  );
  for (const { name, place, share } of hot) {
    process.stdout.write(`${(100 * share).toFixed(1).padStart(8)} %  ${name} (${place})\n`);
  }
}

function row(cells: readonly (string | number)[]): void {
  const texts = cells.map((cell) => (typeof cell === "number" ? cell.toLocaleString("en") : cell).padStart(15));
  process.stdout.write(`${texts.join("")}\n`);
}

await main();
