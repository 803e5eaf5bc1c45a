/**
 * `npm run fuzz -- --bytes [--cases n] [--seed s] [--only name]`: every reader of bytes against mutated messages. Exit
 * code 1: a reader has a fault.
 */
import { parseArgs } from "node:util";
import { attack } from "./campaign.ts";
import { TARGETS } from "./targets.ts";

const USAGE = "npm run fuzz -- --bytes [--cases n] [--seed s] [--only name]";
/** Cases of a reader's turn: readers take turns, so that a run that is stopped has tried them all. */
const TURN = 2_000;
/** Readers that open files get one case for so many of the others. */
const SLOW_SHARE = 20;

function main(): number {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { cases: text, seed: text, only: text } });
  const [cases, seed] = [Number(values.cases ?? 1_000_000), Number(values.seed ?? 1)];
  const targets = TARGETS.filter(({ name }) => values.only === undefined || name.includes(values.only));
  if (!(cases > 0) || !Number.isInteger(seed) || targets.length === 0) {
    console.error(`usage: ${USAGE}\nreaders: ${TARGETS.map(({ name }) => name).join("; ")}`);
    return 2;
  }
  const tried = new Map(targets.map(({ name }) => [name, { cases: 0, refused: 0 }]));
  const started = performance.now();
  const before = process.memoryUsage().rss;
  let done = 0;
  for (let round = seed; done < cases; round++) {
    for (const target of targets) {
      const outcome = attack(target, { seed: round, cases: target.slow === true ? TURN / SLOW_SHARE : TURN });
      if (outcome.fault !== undefined) {
        console.log(
          `\n${outcome.fault}\nagain: npm run fuzz -- --bytes --seed ${round} --cases 1 --only "${target.name}"`,
        );
        return 1;
      }
      const sum = tried.get(target.name)!;
      sum.cases += outcome.cases;
      sum.refused += outcome.refused;
      done += outcome.cases;
    }
    if (process.stdout.isTTY) process.stdout.write(`\r${done} cases`);
  }
  for (const [name, { cases: count, refused }] of tried)
    console.log(`${name}: ${count} cases, ${Math.round((100 * refused) / count)} % refused by an error`);
  const seconds = Math.round((performance.now() - started) / 1_000);
  const megabytes = Math.round((process.memoryUsage().rss - before) / 1e6);
  console.log(`${done} cases without a fault in ${seconds} s; ${megabytes} MB more memory than at the start`);
  return 0;
}

if (import.meta.main) process.exitCode = main();
