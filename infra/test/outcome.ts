import { readFileSync } from "node:fs";
import type { SuiteResult } from "./reporter.ts";

/** What a suite came to, and in a word why. */
export interface Outcome extends SuiteResult {
  readonly suite: string;
  readonly note?: string;
}

interface Run {
  readonly suite: string;
  /** Exit code of vitest. */
  readonly code: number;
  /** What the reporter wrote; undefined when it came to no end. */
  readonly result: SuiteResult | undefined;
  /** Was the suite narrowed to some paths, so that it may be empty? */
  readonly narrowed: "yes" | "no";
}

/** A run without a result, without a test, or that exits non-zero though no test failed, has failed. */
export function judge({ suite, code, result, narrowed }: Run): Outcome {
  if (result === undefined)
    return { suite, passed: 0, failed: 1, skipped: [], note: `vitest ended (${code}) without a result` };
  const counts = `${result.passed} passed, ${result.failed} failed, ${result.skipped.length} skipped`;
  if (result.failed > 0) return { suite, ...result, note: counts };
  if (code !== 0) return { suite, ...result, failed: 1, note: `vitest ended with ${code} though no test failed` };
  if (result.passed > 0 || result.skipped.length > 0) return { suite, ...result, note: counts };
  if (narrowed === "yes") return { suite, ...result, note: "nothing matches here" };
  return { suite, ...result, failed: 1, note: "it holds no test" };
}

export function readResult(file: string): SuiteResult | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as SuiteResult;
  } catch {
    return undefined; // it died before the end
  }
}

/** The closing lines: what was skipped and why, what failed, and the sum. The sum of nothing is a failure. */
export function closingLines(all: readonly Outcome[]): { readonly lines: string[]; readonly exitCode: number } {
  const skips = all.flatMap((outcome) =>
    outcome.skipped.map((skip) => `skipped: ${outcome.suite}: ${skip.name}: ${skip.reason}`),
  );
  const failures = all
    .filter((outcome) => outcome.failed > 0)
    .map((outcome) => `failed: ${outcome.suite}${outcome.note === undefined ? "" : `: ${outcome.note}`}`);
  const passed = all.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = all.reduce((sum, outcome) => sum + outcome.failed, 0);
  const nothing = passed === 0 && failed === 0 ? ["failed: no test ran"] : [];
  const sum = `${passed} passed, ${failed + nothing.length} failed, ${skips.length} skipped`;
  return { lines: [...skips, ...failures, ...nothing, sum], exitCode: failed + nothing.length === 0 ? 0 : 1 };
}
