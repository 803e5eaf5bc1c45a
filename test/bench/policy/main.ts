/** `npm run bench:policy`: judges the default policy by goodput in virtual time. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { checkPolicy } from "@tutti/sim-report/scenarios";
import type { ComparedMix, Goodput } from "@tutti/simulator";
import { readArguments } from "../arguments.ts";
import { Command } from "../system/command.ts";
import { type Judged, type MixRatio, render } from "./judged-text.ts";
import { ROWS } from "./rows.ts";

const USAGE = `Usage: npm run bench:policy -- [options]

Goodput of the default policy and of others in virtual time: one model and zoos, even and bursty, with the delays of a
running system, beside machines that stand still, on few accelerators, and for random mixes.

  --policies a,b,c     (default: default,deferred,eager,timeout:20%,capped)
  --rows <text>        only rows whose name contains it; without it random mixes are judged too
  --random 14          so many random mixes, each beside the best of the other policies
  --seed 9400          of the first
  --against <file>     an earlier output with --json: how much the default changed since
  --json               print JSON
  --help               this text
`;

const values = readArguments(USAGE, {
  policies: { type: "string", default: "default,deferred,eager,timeout:20%,capped" },
  rows: { type: "string", default: "" },
  random: { type: "string", default: "14" },
  seed: { type: "string", default: "9400" },
  against: { type: "string", default: "" },
  json: { type: "boolean", default: false },
});
const policies = values.policies.split(",");
const rivals = policies.filter((policy) => policy !== "default");
const rows = ROWS.filter(({ name }) => name.includes(values.rows));
const before = checked(() => {
  for (const policy of policies) checkPolicy(policy);
  if (rows.length === 0) throw new Error(`--rows: there are ${ROWS.map(({ name }) => `"${name}"`).join(", ")}`);
  return values.against === "" ? undefined : (JSON.parse(readFileSync(values.against, "utf8")) as Judged);
});

function checked<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

async function judge(): Promise<Judged> {
  const mixes = values.rows === "" && rivals.length > 0 && values.random !== "0" ? await judgeMixes() : [];
  const goodputs = rows.map(({ name }) => ({ name, boundRps: 0, goodputRps: policies.map(() => 0) }));
  const searches = rows.flatMap(({ args }, row) =>
    policies.map((policy, column) => async () => {
      const found = await tutti<Goodput>(["goodput", ...args, "--policy", policy, "--workers", "1"]);
      goodputs[row]!.goodputRps[column] = found.goodputRps;
      goodputs[row]!.boundRps = found.bound.clairvoyantRps;
    }),
  );
  await runAll(searches);
  return { policies, rows: goodputs, mixes };
}

async function judgeMixes(): Promise<MixRatio[]> {
  say(`${values.random} random mixes `);
  const { random, seed } = values;
  return tutti<ComparedMix[]>(["compare", "--random", random, "--seed", seed, "--rivals", rivals.join(",")]);
}

/** Searches one goodput on each core at a time. What a search finds doesn't depend on the others. */
async function runAll(searches: readonly (() => Promise<void>)[]): Promise<void> {
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < searches.length) {
      const search = searches[next++]!;
      say(`${next} of ${searches.length} goodputs `);
      await search();
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, run));
}

const tutti = async <Answer>(args: readonly string[]): Promise<Answer> =>
  JSON.parse(await new Command([...args, "--json"]).ended()) as Answer;

function say(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${text.padEnd(40)}\r${text}`);
}

const judged = await judge();
if (process.stderr.isTTY) process.stderr.write("\n");
process.stdout.write(values.json ? `${JSON.stringify(judged)}\n` : render(judged, before));
