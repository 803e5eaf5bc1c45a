/**
 * `npm run fuzz -- --minutes n [--from seed]` runs seeds until time is up; `--count n` that many; `--seed s` runs one and tells its story. Exit code 1: a seed
 * failed, and the command that replays it is printed.
 */
import { parseArgs } from "node:util";
import { type TrialResult, runTrial } from "./trial.ts";

const USAGE = "npm run fuzz -- [--minutes n | --count n] [--from seed], or --seed s to replay one";
const LINES_SHOWN = 60;

/** What a failing seed has to say to whoever reads it. */
export function failureText({ seed, violation, story }: TrialResult): string {
  const lines = story.slice(-LINES_SHOWN).map((line) => (line.length > 220 ? `${line.slice(0, 220)}…` : line));
  return [
    `seed ${seed}: ${violation?.invariant}: ${violation?.text}`,
    "its last events:",
    ...lines,
    `replay it: npm run fuzz -- --seed ${seed}`,
  ].join("\n");
}

function main(): number {
  const values = readOptions();
  const [minutes, count, seed, from] = [values?.minutes, values?.count, values?.seed, values?.from].map((text) =>
    text === undefined ? undefined : Number(text),
  );
  if (values === undefined || [minutes, count, seed, from].some((value) => value !== undefined && !(value >= 0))) {
    console.error(`usage: ${USAGE}`);
    return 2;
  }
  if (seed !== undefined) return replay(seed);
  const first = from ?? 1;
  const started = performance.now();
  const endsAt = started + (minutes ?? (count === undefined ? 1 : Infinity)) * 60_000;
  let next = first;
  let asked = 0;
  for (; next < first + (count ?? Infinity) && performance.now() < endsAt; next++) {
    const result = runTrial(next);
    asked += result.asked;
    if (result.violation !== undefined) {
      console.log(failureText(runTrial(next, "told")));
      return 1;
    }
    if (process.stdout.isTTY) process.stdout.write(`\r${next - first + 1} seeds, ${asked} requests`);
  }
  const perSeed = Math.round((performance.now() - started) / Math.max(1, next - first));
  console.log(`\r${next - first} seeds from ${first} and ${asked} requests without a violation, ${perSeed} ms a seed`);
  return 0;
}

/** Undefined for anything that it does not know. */
function readOptions() {
  const text = { type: "string" } as const;
  try {
    return parseArgs({ options: { minutes: text, count: text, seed: text, from: text } }).values;
  } catch {
    return undefined;
  }
}

function replay(seed: number): number {
  const result = runTrial(seed, "told");
  if (result.violation !== undefined) console.log(failureText(result));
  else
    console.log(
      `seed ${seed} is well: ${result.ok} of ${result.asked} requests ok, ${result.events} messages, served again ` +
        `${result.recovery / 1_000} ms after the faults, digest ${result.digest}`,
    );
  return result.violation === undefined ? 0 : 1;
}

if (import.meta.main) process.exitCode = main();
