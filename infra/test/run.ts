/**
 * `npm test` runs every suite, each in a process of its own. Checks run two at a time, and tests one after the other.
 * It then prints the skipped tests with their reasons, and one line that sums the run up. Arguments: names of suites,
 * and paths that narrow them. Exit code 0: tests ran and none failed.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { bothRuns, closingLines, judge, readResult, secondRun } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import { RESULT_FILE_VARIABLE } from "./reporter.ts";
import { allSuites, select } from "./suites.ts";
import type { Suite } from "./suites.ts";

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
const outcomes: Outcome[] = [];
let stoppedBy: NodeJS.Signals | undefined;
try {
  const checks = suites.filter((suite) => suite.kind === "command");
  outcomes.push(...(await runChecks(checks)));
  for (const suite of suites) {
    if (stoppedBy !== undefined) break;
    if (suite.kind === "vitest") outcomes.push(await runTests(suite));
  }
} finally {
  rmSync(results, { recursive: true, force: true });
}
const { lines, exitCode } = closingLines(outcomes);
if (stoppedBy !== undefined) console.log(`\nStopped by ${stoppedBy} before the end.`);
console.log(`\n${lines.join("\n")}`);
process.exitCode = stoppedBy === undefined ? exitCode : 1;

/**
 * Runs checks two at a time, since each keeps one core busy; the output of each stays together. @returns outcomes in
 * the order of the suites
 */
async function runChecks(checks: readonly (Suite & { kind: "command" })[]): Promise<Outcome[]> {
  const done = new Map<string, Outcome>();
  const waiting = [...checks];
  const worker = async (): Promise<void> => {
    for (let check = waiting.shift(); check !== undefined && stoppedBy === undefined; check = waiting.shift()) {
      const { name: suite, command } = check;
      const startedAt = performance.now();
      let said = "";
      const code = await run(command, {}, (text) => (said += text));
      const counts = code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
      const outcome: Outcome = { suite, ...counts, skipped: [], files: [] };
      process.stdout.write(`\n== ${suite}\n${said}`);
      sayOutcome(outcome, startedAt);
      done.set(suite, outcome);
    }
  };
  if (checks.length > 1) console.log(`\n== ${checks.map(({ name }) => name).join(", ")}, two at a time`);
  await Promise.all([worker(), worker()]);
  return checks.map(({ name }) => done.get(name)).filter((outcome) => outcome !== undefined);
}

async function runTests({ name }: Suite): Promise<Outcome> {
  console.log(`\n== ${name}`);
  const startedAt = performance.now();
  const first = await runVitest(name, filters);
  const again = stoppedBy === undefined ? secondRun(first).map(({ file }) => file) : [];
  if (again.length > 0) console.log(`\n== ${name}, a second time: ${again.join(", ")}`);
  // One file after the other: what failed for want of a core has both now.
  const outcome = again.length === 0 ? first : bothRuns(first, await runVitest(name, again, ["--no-file-parallelism"]));
  sayOutcome(outcome, startedAt);
  return outcome;
}

function sayOutcome({ suite, failed, note }: Outcome, startedAt: number): void {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(
    `== ${suite} ${failed === 0 ? "passed" : "FAILED"} in ${seconds} s${note === undefined ? "" : `: ${note}`}`,
  );
}

async function runVitest(suite: string, paths: readonly string[], more: readonly string[] = []): Promise<Outcome> {
  const file = join(results, `${suite}.json`);
  const reporters = ["--reporter", "agent", "--reporter", "./infra/test/reporter.ts"];
  const args = [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--project",
    suite,
    "--passWithNoTests",
    ...reporters,
    ...more,
    ...paths,
  ];
  rmSync(file, { force: true });
  const code = await run(args, { [RESULT_FILE_VARIABLE]: file });
  return judge({ suite, code, result: readResult(file), narrowed: paths.length > 0 ? "yes" : "no" });
}

/** @param hear - takes the command's output, instead of our own */
function run(args: readonly string[], env: Record<string, string>, hear?: (text: string) => void): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      // one stream, so that the last line is the last line
      stdio: hear === undefined ? ["ignore", 1, 1] : ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...plainOutput, NX_DAEMON: "false", NX_NO_CLOUD: "true", ...env },
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => hear?.(text));
    const forward = (signal: NodeJS.Signals): void => {
      stoppedBy = signal;
      child.kill(signal);
    };
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, forward);
    const done = (code: number): void => {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, forward);
      resolve(code);
    };
    child.on("error", () => done(127));
    child.on("close", (code) => done(code ?? 1));
  });
}
