/**
 * `npm test` runs every suite, each in a process of its own. Checks run two at a time, and tests one after the other;
 * suites that wait and suites that compute run beside each other. It then prints the skipped tests with their reasons,
 * and one line that sums the run up. Arguments: names of suites, and paths that narrow them. Exit code 0: tests ran and
 * none failed.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { closingLines } from "./outcome.ts";
import { Runner } from "./runner.ts";
import { allSuites, select, stagesOf } from "./suites.ts";

const root = join(import.meta.dirname, "../..");
const cache = join(root, ".tutti/cache");

/** CI logs and files get no colours, whatever CI=true makes the tools believe. */
const plainOutput = process.stdout.isTTY ? {} : { NO_COLOR: "1", FORCE_COLOR: undefined };

const { suites, filters, unknown } = select(allSuites(root), process.argv.slice(2));
if (unknown.length > 0) {
  const names = [...new Set(allSuites(root).flatMap((suite) => [suite.group, suite.name]))];
  console.error(`No such suite: ${unknown.join(", ")}. There are: ${names.join(", ")}; a path narrows them.`);
  process.exit(2);
}

mkdirSync(cache, { recursive: true });
const results = mkdtempSync(join(cache, "results-"));
const env = { ...plainOutput, NX_DAEMON: "false", NX_NO_CLOUD: "true" };
const runner = new Runner({ root, results, filters, env, print: (text) => void process.stdout.write(text) });
try {
  for (const stage of stagesOf(suites)) await runner.run(stage);
} finally {
  rmSync(results, { recursive: true, force: true });
}
const { lines, exitCode } = closingLines(suites.flatMap(({ name }) => runner.outcomes.get(name) ?? []));
if (runner.stoppedBy !== undefined) console.log(`\nStopped by ${runner.stoppedBy} before the end.`);
console.log(`\n${lines.join("\n")}`);
process.exitCode = runner.stoppedBy === undefined ? exitCode : 1;
