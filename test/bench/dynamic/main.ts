/** `npm run bench:dynamic`: the cost of a request in packages/dynamic, in µs of wall time (Orloj's Figure 10). */
import {
  BatchLevels,
  FeasibleQueues,
  KineticTournament,
  LatencyModel,
  LengthQueue,
  type PriorityStructure,
  Scan,
  affineCosts,
  histogramOf,
} from "@tutti/dynamic";
import { type Instant, Prng, instant } from "@tutti/units";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:dynamic -- [options]

  structures   random lines: one insertion, and one pop of 16, with so many pending
  queues       requests of a bimodal application in FeasibleQueues: one insertion, divided by the batch sizes that it enters
  lengths      requests of eight applications in LengthQueue, Tutti's own: one insertion; the choice of a batch among all of sizes 1 to 16, and taking it

  --json                        print JSON instead of a table
  --pending 100,1000,10000      requests that wait
  --repeat 5                    runs of each, in turn; the least counts
  --help                        this text
`;

const values = readArguments(HELP, {
  json: { type: "boolean", default: false },
  pending: { type: "string", default: "100,1000,10000" },
  repeat: { type: "string", default: "5" },
});

function positive(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  process.stderr.write(`bench:dynamic: '${text}' is not a positive whole number\n`);
  process.exit(2);
}

const ROUNDS = 400;
const POPPED = 16;

interface Cost {
  readonly insertUs: number;
  readonly popUs: number;
}

/** Pops 16 requests and inserts 16 others, while x grows as it does in 1 ms of the default b_τ. */
function structureCost(create: () => PriorityStructure, pending: number): Cost {
  const prng = new Prng(3);
  const lines = create();
  const line = (): [number, number] =>
    prng.nextFloat() < 0.5 ? [prng.nextFloat(), 0] : [-prng.nextFloat() / 2, prng.nextFloat()];
  for (let slot = 0; slot < pending; slot++) lines.insert(slot, ...line(), slot, slot);
  const out: number[] = [];
  let [insertMs, popMs, x, order] = [0, 0, 1, pending];
  for (let round = 0; round < ROUNDS; round++) {
    x *= 1.0001;
    const start = performance.now();
    const taken = lines.popBest(x, POPPED, out);
    popMs += performance.now() - start;
    const drawn = Array.from({ length: taken }, line);
    const refill = performance.now();
    for (let i = 0; i < taken; i++) lines.insert(out[i]!, drawn[i]![0], drawn[i]![1], order, order++);
    insertMs += performance.now() - refill;
  }
  return { insertUs: (1000 * insertMs) / (ROUNDS * POPPED), popUs: (1000 * popMs) / ROUNDS };
}

/** Cost of a whole insertion: lines, milestones, drops; by request and batch size. */
function queueCost(pending: number): { insertUs: number; takeUs: number } {
  const prng = new Prng(3);
  const chances = 1e-7;
  const alone = histogramOf(
    Array.from({ length: 1_000 }, () => (prng.nextInt(2) === 0 ? 20_000 : 90_000) * (0.9 + 0.2 * prng.nextFloat())),
  );
  const sizes = [1, 2, 4, 8, 16];
  const model = new LatencyModel({ apps: [{ alone, share: 1 }], sizes, costs: affineCosts(25_000, 0.2), chances });
  const queues = new FeasibleQueues({ model, chances, requestsMax: 2 * pending });
  let now = instant(1_767_225_600_000_000);
  const draw = () => ({ app: 0, deadline: (now + 600_000 + prng.nextInt(2_000_000)) as Instant });
  for (let i = 0; i < pending; i++) queues.add(now, draw());
  let [insertMs, takeMs, entered] = [0, 0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    now = (now + 100) as Instant;
    const batch: object[] = [];
    queues.advance(now, () => undefined);
    const start = performance.now();
    queues.take(now, 4, batch as never);
    takeMs += performance.now() - start;
    const drawn = batch.map(draw);
    const refill = performance.now();
    for (const request of drawn) queues.add(now, request);
    insertMs += performance.now() - refill;
    entered += sizes.length * drawn.length;
  }
  return { insertUs: (1000 * insertMs) / entered, takeUs: (1000 * takeMs) / ROUNDS };
}

/**
 * Eight applications of 20 to 160 ms, batches of every size to 16. Taken requests are replaced, so that as many wait.
 */
function lengthsCost(pending: number): { insertUs: number; chooseUs: number; batchMean: number } {
  const prng = new Prng(3);
  const around = (ms: number): number => 1_000 * ms * (0.9 + 0.2 * prng.nextFloat());
  const classes = Array.from({ length: 8 }, (_, i) => ({
    share: 1,
    alone: histogramOf(Array.from({ length: 1_000 }, () => around(20 * (i + 1)))),
  }));
  const common = { classes, sizes: Array.from({ length: 16 }, (_, i) => i + 1), costs: affineCosts(25_000, 0.2) };
  const levels = (certainty: number) => new BatchLevels({ ...common, chances: 1e-7, certainty });
  const queue = new LengthQueue<{ deadline: number }>(levels(0.5), levels(0.9));
  let now = 1_767_225_600_000_000;
  const draw = () => ({ deadline: now + 600_000 + prng.nextInt(2_000_000) });
  for (const request of Array.from({ length: pending }, draw).sort((a, b) => a.deadline - b.deadline))
    queue.add(request, prng.nextInt(8));
  let [insertMs, chooseMs, taken] = [0, 0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    now += 100;
    const start = performance.now();
    queue.dropUntil(now, () => undefined);
    queue.choose(now, 10, -Infinity);
    const batch = queue.take();
    chooseMs += performance.now() - start;
    const drawn = batch.map(() => ({ deadline: now + 2_600_000 }));
    const refill = performance.now();
    for (const request of drawn) queue.add(request, prng.nextInt(8));
    insertMs += performance.now() - refill;
    taken += batch.length;
  }
  return { insertUs: (1000 * insertMs) / taken, chooseUs: (1000 * chooseMs) / ROUNDS, batchMean: taken / ROUNDS };
}

function main(): void {
  const repeat = positive(values.repeat);
  const least = <T extends object>(measure: () => T): T => {
    const runs = Array.from({ length: repeat }, measure);
    const keys = Object.keys(runs[0]!) as (keyof T)[];
    return Object.fromEntries(keys.map((key) => [key, Math.min(...runs.map((run) => run[key] as number))])) as T;
  };
  const rows = values.pending.split(",").map((text) => {
    const pending = positive(text);
    return {
      pending,
      scan: least(() => structureCost(() => new Scan(), pending)),
      kinetic: least(() => structureCost(() => new KineticTournament(), pending)),
      queues: least(() => queueCost(pending)),
      lengths: least(() => lengthsCost(pending)),
    };
  });
  if (values.json) return void process.stdout.write(`${JSON.stringify(rows)}\n`);
  const cells = (texts: readonly (string | number)[]): string =>
    texts.map((text) => (typeof text === "number" ? text.toFixed(2) : text).padStart(16)).join("");
  const titles = [
    "pending",
    "scan: insert",
    "pop of 16",
    "kinetic: insert",
    "pop of 16",
    "queues: insert",
    "batch of 16",
    "lengths: insert",
    "choose a batch",
  ];
  process.stdout.write(`${cells(titles)}  (µs; an insertion into queues by batch size)\n`);
  for (const { pending, scan, kinetic, queues, lengths } of rows) {
    const structures = [scan.insertUs, scan.popUs, kinetic.insertUs, kinetic.popUs];
    const figures = [...structures, queues.insertUs, queues.takeUs, lengths.insertUs, lengths.chooseUs];
    process.stdout.write(`${cells([pending.toLocaleString("en"), ...figures])}\n`);
  }
}

main();
