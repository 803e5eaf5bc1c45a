/** `npm run bench:simulator`: simulated requests per second of wall time on one core. */
import { parseArgs } from "node:util";
import { profiled } from "../scheduler/cpu-profile.ts";
import { type Measurement, measure } from "./measurement.ts";
import { type Shape, boundOf } from "./workload.ts";

const HELP = `Usage: npm run bench:simulator -- [options]

Whole simulations (workload, schedulers, judge), policy 'default', no listener:
  table 2    ResNet50 of the paper's table 2: 1 model, 8 accelerators, 5,000 requests/s
  small      the same at 0.85 of the staggered bound
  large      400 such models on 1,000 accelerators at 0.85 of the bound; its cost per request against small's

  --json               print JSON instead of a table
  --requests 1000000   requests per run
  --repeat 3           runs of each; the fastest counts
  --profile            also print the functions that the large shape's time goes into
  --help               this text
`;

const { values } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    requests: { type: "string", default: "1000000" },
    repeat: { type: "string", default: "3" },
    profile: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

function positive(text: string): number {
  const number = Number(text);
  if (Number.isFinite(number) && number > 0) return number;
  process.stderr.write(`bench:simulator: '${text}' is not a positive number\n`);
  process.exit(2);
}

const LOAD = 0.85;
const at = (models: number, gpus: number): Shape => ({ models, gpus, rate: Math.round(LOAD * boundOf(gpus)) });
const SHAPES: Readonly<Record<"table2" | "small" | "large", Shape>> = {
  table2: { models: 1, gpus: 8, rate: 5000 },
  small: at(1, 8),
  large: at(400, 1000),
};

async function main(): Promise<void> {
  const requests = positive(values.requests);
  const of = (shape: Shape): Measurement => measure(shape, requests, positive(values.repeat));
  const table2 = of(SHAPES.table2);
  const small = of(SHAPES.small);
  const { result: large, hot } = values.profile
    ? await profiled(() => of(SHAPES.large), 20)
    : { result: of(SHAPES.large), hot: [] };
  const costOfSize = small.requestsPerWallSecond / large.requestsPerWallSecond;
  if (values.json) return void process.stdout.write(`${JSON.stringify({ table2, small, large, costOfSize })}\n`);
  for (const [name, m] of Object.entries({ table2, small, large })) {
    const cells = [name, `${m.models} models`, `${m.gpus} gpus`, `${m.rate.toLocaleString("en")} r/s`];
    const figures = [
      `${m.requestsPerWallSecond.toLocaleString("en")} requests/s`,
      `bad ${(100 * m.badRate).toFixed(2)} %`,
    ];
    process.stdout.write(`${[...cells, ...figures].map((cell) => cell.padStart(18)).join("")}\n`);
  }
  process.stdout.write(`cost per request, large against small: ${costOfSize.toFixed(2)}\n`);
  for (const { name, place, share } of hot) {
    process.stdout.write(`${(100 * share).toFixed(1).padStart(8)} %  ${name} (${place})\n`);
  }
}

if (values.help) process.stdout.write(HELP);
else await main();
