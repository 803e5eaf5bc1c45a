/**
 * `npm test`: every suite, one after the other, each in a process of its own; then what was skipped and why, and one line
 * that sums it up. Arguments: names of suites, and paths that narrow them. Exit code 0 says that tests ran and none failed.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { closingLines, judge, readResult } from "./outcome.ts";
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
  for (const suite of suites) {
    outcomes.push(await runSuite(suite));
    if (stoppedBy !== undefined) break;
  }
} finally {
  rmSync(results, { recursive: true, force: true });
}
const { lines, exitCode } = closingLines(outcomes);
if (stoppedBy !== undefined) console.log(`\nStopped by ${stoppedBy} before the end.`);
console.log(`\n${lines.join("\n")}`);
process.exitCode = stoppedBy === undefined ? exitCode : 1;

async function runSuite(suite: Suite): Promise<Outcome> {
  console.log(`\n== ${suite.name}`);
  const startedAt = performance.now();
  const outcome = suite.kind === "command" ? await runCheck(suite.name, suite.command) : await runVitest(suite.name);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const note = outcome.note === undefined ? "" : `: ${outcome.note}`;
  console.log(`== ${suite.name} ${outcome.failed === 0 ? "passed" : "FAILED"} in ${seconds} s${note}`);
  return outcome;
}

async function runCheck(suite: string, command: readonly string[]): Promise<Outcome> {
  const code = await run(command, {});
  return { suite, passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: [] };
}

async function runVitest(suite: string): Promise<Outcome> {
  const file = join(results, `${suite}.json`);
  const reporters = ["--reporter", "agent", "--reporter", "./infra/test/reporter.ts"];
  const args = [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--project",
    suite,
    "--passWithNoTests",
    ...reporters,
    ...filters,
  ];
  const code = await run(args, { [RESULT_FILE_VARIABLE]: file });
  return judge({ suite, code, result: readResult(file), narrowed: filters.length > 0 ? "yes" : "no" });
}

function run(args: readonly string[], env: Record<string, string>): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: ["ignore", 1, 1], // one stream, so that the last line is the last line
      env: { ...process.env, ...plainOutput, NX_DAEMON: "false", NX_NO_CLOUD: "true", ...env },
    });
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
    child.on("exit", (code) => done(code ?? 1));
  });
}
