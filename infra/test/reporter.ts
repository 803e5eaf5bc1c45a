import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/** What one vitest run came to, as the runner reads it. */
export interface SuiteResult {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
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
    const skipped: { name: string; reason: string }[] = [];
    let passed = 0;
    let failed = unhandled.length; // an error outside any test is somebody's failure
    for (const module of modules) {
      failed += module.errors().length; // the file didn't load: its tests were never counted
      for (const suite of module.children.allSuites()) failed += suite.errors().length; // a hook failed
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === "passed") passed++;
        else if (result.state === "skipped") {
          skipped.push({ name: test.fullName, reason: result.note ?? "no reason given" });
        } else failed++; // failed, or never ran to its end
      }
    }
    writeFileSync(file, JSON.stringify({ passed, failed, skipped } satisfies SuiteResult));
  }
}
