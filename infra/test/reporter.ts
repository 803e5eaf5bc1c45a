import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/** The result of one vitest run, as the runner reads it. */
export interface SuiteResult {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
  /** Results by file; a failure outside any file is only in the sum. */
  readonly files: readonly FileResult[];
}

export interface FileResult {
  /** Relative to where vitest was started. */
  readonly file: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: SuiteResult["skipped"];
  /** Tests that failed; none where the file or a hook did. */
  readonly failedTests: readonly string[];
}

/** Where the result goes: set by the runner. */
export const RESULT_FILE_VARIABLE = "TUTTI_SUITE_RESULT";

/** Counts tests, and keeps the reasons of `ctx.skip(reason)`, which vitest's own reports leave out. */
export default class SuiteReporter implements Reporter {
  onTestModuleEnd(module: TestModule): void {
    const all = [...module.children.allTests()];
    const failed = all.filter((test) => test.result().state === "failed").length;
    const ms = Math.round(module.diagnostic().duration);
    const mark = failed > 0 || module.errors().length > 0 ? "✗" : "✓";
    const name = relative(process.cwd(), module.moduleId);
    console.log(`  ${mark} ${name} (${all.length} tests${failed > 0 ? `, ${failed} failed` : ""}, ${ms} ms)`);
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const file = process.env[RESULT_FILE_VARIABLE];
    if (file === undefined) return;
    const files = modules.map(resultOf);
    const sum = (value: (file: FileResult) => number): number => files.reduce((total, file) => total + value(file), 0);
    const result: SuiteResult = {
      passed: sum(({ passed }) => passed),
      failed: sum(({ failed }) => failed) + unhandled.length, // an error outside any test is somebody's failure
      skipped: files.flatMap(({ skipped }) => skipped),
      files,
    };
    writeFileSync(file, JSON.stringify(result));
  }
}

function resultOf(module: TestModule): FileResult {
  const skipped: { name: string; reason: string }[] = [];
  const failedTests: string[] = [];
  let passed = 0;
  let failed = module.errors().length; // the file didn't load: its tests were never counted
  for (const suite of module.children.allSuites()) failed += suite.errors().length; // a hook failed
  for (const test of module.children.allTests()) {
    const result = test.result();
    if (result.state === "passed") passed++;
    else if (result.state === "skipped") {
      skipped.push({ name: test.fullName, reason: result.note ?? "no reason given" });
    } else failedTests.push(test.fullName); // failed, or never ran to its end
  }
  return {
    file: relative(process.cwd(), module.moduleId),
    passed,
    failed: failed + failedTests.length,
    skipped,
    failedTests,
  };
}
