import { readFileSync } from "node:fs";
import type { FileResult, SuiteResult } from "./reporter.ts";

/** The result of one suite, with a note that says why. */
export interface Outcome extends SuiteResult {
  readonly suite: string;
  readonly note?: string;
  /** Tests that failed, and passed when their file ran a second time. */
  readonly flaky?: readonly string[];
}

/** Suites whose deadlines are measured on real clocks, on a machine that others share. */
const realClocks = ["e2e"];
/** Most files that a busy machine spoils; more failures are a fault. */
const SPOILT_MAX = 2;

interface Run {
  readonly suite: string;
  /** Exit code of vitest. */
  readonly code: number;
  /** The reporter's result; undefined when vitest died before the end. */
  readonly result: SuiteResult | undefined;
  /** Was the suite narrowed to some paths, so that it may be empty? */
  readonly narrowed: "yes" | "no";
}

/**
 * Decides about a run. It has failed without a result, without a test, or when it exits non-zero though no test failed.
 */
export function judge({ suite, code, result, narrowed }: Run): Outcome {
  if (result === undefined)
    return { suite, passed: 0, failed: 1, skipped: [], files: [], note: `vitest ended (${code}) without a result` };
  const counts = countsOf(result);
  if (result.failed > 0) return { suite, ...result, note: counts };
  if (code !== 0) return { suite, ...result, failed: 1, note: `vitest ended with ${code} though no test failed` };
  if (result.passed > 0 || result.skipped.length > 0) return { suite, ...result, note: counts };
  if (narrowed === "yes") return { suite, ...result, note: "nothing matches here" };
  return { suite, ...result, failed: 1, note: "it holds no test" };
}

/**
 * Files that are run a second time before they count as failed: a fault fails twice. There are none unless all failures
 * are in a few files that depend on real clocks.
 */
export function secondRun({ suite, failed, files }: Outcome): readonly FileResult[] {
  const spoilt = files.filter((file) => file.failed > 0);
  const inFiles = spoilt.reduce((sum, file) => sum + file.failed, 0);
  return realClocks.includes(suite) && inFiles === failed && spoilt.length <= SPOILT_MAX ? spoilt : [];
}

/**
 * Merges both runs. A file that ran twice counts as it did the second time; tests that passed only then are listed as
 * flaky.
 */
export function bothRuns(first: Outcome, second: Outcome): Outcome {
  const again = secondRun(first);
  const names = new Set(again.map(({ file }) => file));
  const files = [...first.files.filter(({ file }) => !names.has(file)), ...second.files];
  const result = {
    passed: files.reduce((sum, file) => sum + file.passed, 0),
    failed: second.failed,
    skipped: files.flatMap(({ skipped }) => skipped),
    files,
  };
  const stillFail = new Set(second.files.flatMap(({ failedTests }) => failedTests));
  const flaky = again.flatMap(({ file, failedTests }) => (failedTests.length > 0 ? failedTests : [file]));
  return {
    suite: first.suite,
    ...result,
    note: `${countsOf(result)}; ${again.length} of its files ran twice`,
    flaky: flaky.filter((name) => !stillFail.has(name)),
  };
}

const countsOf = ({ passed, failed, skipped }: SuiteResult): string =>
  `${passed} passed, ${failed} failed, ${skipped.length} skipped`;

export function readResult(file: string): SuiteResult | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as SuiteResult;
  } catch {
    return undefined; // vitest died before the end
  }
}

/**
 * The closing lines: skipped tests with their reasons, tests that passed only the second time, failures, and the sum. A
 * sum of zero tests is a failure.
 */
export function closingLines(all: readonly Outcome[]): { readonly lines: string[]; readonly exitCode: number } {
  const skips = all.flatMap((outcome) =>
    outcome.skipped.map((skip) => `skipped: ${outcome.suite}: ${skip.name}: ${skip.reason}`),
  );
  const flaky = all.flatMap(({ suite, flaky = [] }) =>
    flaky.map((name) => `flaky: ${suite}: ${name}: failed, and passed when its file ran again`),
  );
  const failures = all
    .filter((outcome) => outcome.failed > 0)
    .map((outcome) => `failed: ${outcome.suite}${outcome.note === undefined ? "" : `: ${outcome.note}`}`);
  const passed = all.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = all.reduce((sum, outcome) => sum + outcome.failed, 0);
  const nothing = passed === 0 && failed === 0 ? ["failed: no test ran"] : [];
  const sum = `${passed} passed, ${failed + nothing.length} failed, ${skips.length} skipped`;
  return { lines: [...skips, ...flaky, ...failures, ...nothing, sum], exitCode: failed + nothing.length === 0 ? 0 : 1 };
}
