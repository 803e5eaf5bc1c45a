/**
 * Attacks systems of its own from outside, and reports for each attack whether the system withstood it. Exit code 1: an
 * attack succeeded.
 */
import { parseArgs } from "node:util";
import { type AttackResult, brokenText } from "./attack.ts";
import { attackRun } from "./attack-run.ts";
import { ATTACKS } from "./attacks/all.ts";
import { KIND_NAMES, reportFairness } from "./fairness/main.ts";
import { KINDS } from "./fairness/kinds.ts";
import { megabytes } from "./witness.ts";

const USAGE = `npm run attack -- [options]
Starts systems, attacks them from outside, and looks whether others are served meanwhile: test/attack/README.md.

  --fairness             one application sends each kind of body as fast as it may: what does another notice?
  --only <names>         some attacks or kinds, separated by commas
  --short                each in its small form, as npm test does it
  --json                 print JSON instead of text
  --help                 print this

Attacks: ${ATTACKS.map(({ name }) => name).join(", ")}

Kinds of --fairness: ${KIND_NAMES.join(", ")}

Exit code 1: an attack succeeded, or could not be carried out.`;

const { values } = parseArgs({
  options: {
    fairness: { type: "boolean", default: false },
    only: { type: "string" },
    short: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const names = values.fairness ? KIND_NAMES : ATTACKS.map(({ name }) => name);
const wanted = values.only?.split(",").map((name) => name.trim()) ?? names;
const unknown = wanted.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`There is no ${values.fairness ? "kind" : "attack"} ${unknown.join(", ")}.\n\n${USAGE}`);
  process.exit(2);
}

// A normal exit ends child processes too; an exit by a signal would not.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const size = values.short ? "short" : "long";
if (values.fairness) {
  const kinds = KINDS.filter(({ name }) => wanted.includes(name));
  process.exit((await reportFairness(kinds, size, values.json ? "json" : "text")) ? 0 : 1);
}

const results = await attackRun({
  attacks: ATTACKS.filter(({ name }) => wanted.includes(name)),
  size,
  onResult: (result) => void (values.json || console.log(lineOf(result))),
});
const broken = results.filter((result) => result.broken.length > 0);
if (values.json) console.log(JSON.stringify({ broken: broken.length, results }));
else console.log(`\n${results.length - broken.length} held, ${broken.length} BROKEN`);
process.exitCode = broken.length === 0 ? 0 : 1;

function lineOf(result: AttackResult): string {
  const { name, what, broken: seen, seconds, witness } = result;
  const cost =
    witness === undefined
      ? ""
      : `; probes waited ${Math.round(witness.healthMsMax)} ms at most, ${megabytes(witness.grownBytesMax)} more memory`;
  const outcome = seen.length === 0 ? what : brokenText(result);
  return `${seen.length === 0 ? "held  " : "BROKEN"} ${name.padEnd(20)} ${outcome} (${seconds.toFixed(1)} s${cost})`;
}
