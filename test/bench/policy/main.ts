/** `npm run bench:policy`: judges the default policy by goodput in virtual time. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { checkPolicy } from "@tutti/sim-report/scenarios";
import type { ComparedMix, Goodput } from "@tutti/simulator";
import { readArguments } from "../arguments.ts";
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
const MAIN = join(import.meta.dirname, "../../../packages/cli/src/main.ts");
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

type Work = () => Promise<void>;

async function judge(): Promise<Judged> {
  const goodputs = rows.map(({ name }) => ({ name, boundRps: 0, goodputRps: policies.map(() => 0) }));
  const mixes: MixRatio[] = [];
  const works: Work[] = rows.flatMap(({ args }, row) =>
    policies.map((policy, column) => async () => {
      const found = JSON.parse(await tutti(["goodput", ...args, "--policy", policy])) as Goodput;
      goodputs[row]!.goodputRps[column] = found.goodputRps;
      goodputs[row]!.boundRps = found.bound.clairvoyantRps;
    }),
  );
  if (values.rows === "" && rivals.length > 0)
    for (let i = 0; i < Number(values.random); i++)
      works.unshift(async () => {
        const seed = `${Number(values.seed) + i}`;
        const args = ["compare", "--random", "1", "--seed", seed, "--rivals", rivals.join(",")];
        for (const { rival, goodputRps, rivalRps } of JSON.parse(await tutti(args)) as ComparedMix[])
          mixes.push({ seed: Number(seed), goodputRps, rival, rivalRps });
      });
  await runAll(works);
  return { policies, rows: goodputs, mixes: mixes.toSorted((a, b) => a.seed - b.seed) };
}

/** One command at a time on each core: what a command finds doesn't depend on the others. */
async function runAll(works: readonly Work[]): Promise<void> {
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < works.length) {
      const work = works[next++]!;
      if (process.stderr.isTTY) process.stderr.write(`\r${next} of ${works.length} `);
      await work();
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, run));
  if (process.stderr.isTTY) process.stderr.write("\r");
}

async function tutti(args: readonly string[]): Promise<string> {
  const one = args[0] === "goodput" ? ["--workers", "1"] : [];
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args, ...one, "--json"], {
    maxBuffer: 2 ** 26,
  });
  return stdout;
}

const judged = await judge();
process.stdout.write(values.json ? `${JSON.stringify(judged)}\n` : render(judged, before));
