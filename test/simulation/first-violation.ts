/**
 * Runs seeds until one breaks an invariant, and prints it; exit code 1. `mutant.ts` starts it for planted bugs: fuzz.ts
 * would load everything again in a thread, and run the seed a second time for its story.
 *
 * Usage: first-violation.ts <first seed> <number of seeds>
 */
import { runTrial } from "./trial.ts";

const [from = 1, count = 1] = process.argv.slice(2).map(Number);
for (let seed = from; seed < from + count; seed++) {
  const { violation } = runTrial(seed);
  if (violation === undefined) continue;
  console.log(`seed ${seed}: ${violation.invariant}: ${violation.text}`);
  process.exitCode = 1;
  break;
}
