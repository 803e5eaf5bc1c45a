import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { bothRuns, judge, readResult, secondRun } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import { RESULT_FILE_VARIABLE } from "./reporter.ts";
import type { Stage, Suite } from "./suites.ts";

export interface RunnerOptions {
  /** Folder in which suites run. */
  readonly root: string;
  /** Folder for the results of vitest. */
  readonly results: string;
  /** Paths that narrow vitest suites. */
  readonly filters: readonly string[];
  /** Environment of the suites, besides our own; undefined removes a variable. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (text: string) => void;
}

/** When the output of a suite is printed: at once, or at its end, so that it isn't mixed with another's. */
type Printed = "as it comes" | "together";

/** Runs suites, each in a process of its own. */
export class Runner {
  /** By suite, as they end. */
  readonly outcomes = new Map<string, Outcome>();
  readonly #options: RunnerOptions;
  #stoppedBy: NodeJS.Signals | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** The signal that ended a suite, and lets no other start. */
  get stoppedBy(): NodeJS.Signals | undefined {
    return this.#stoppedBy;
  }

  /** Runs checks two at a time, since each keeps one core busy, then tests one after the other; others beside them. */
  async run({ first, beside }: Stage): Promise<void> {
    const checks = first.filter(({ kind }) => kind === "command");
    const tests = first.filter(({ kind }) => kind === "vitest");
    const { print } = this.#options;
    if (checks.length > 1) print(`\n== ${namesOf(checks)}, two at a time\n`);
    if (beside.length > 0) print(`\n== ${namesOf(beside)}, beside ${namesOf(first)}\n`);
    const runFirst = async (): Promise<void> => {
      const waiting = checks.values(); // both take from it
      await Promise.all([this.#runInTurn(waiting, "together"), this.#runInTurn(waiting, "together")]);
      await this.#runInTurn(tests, "as it comes");
    };
    await Promise.all([runFirst(), this.#runInTurn(beside, "together")]);
  }

  async #runInTurn(suites: Iterable<Suite>, printed: Printed): Promise<void> {
    for (const suite of suites) {
      if (this.#stoppedBy !== undefined) return;
      this.outcomes.set(suite.name, await this.#runSuite(suite, printed));
    }
  }

  async #runSuite(suite: Suite, printed: Printed): Promise<Outcome> {
    const startedAt = performance.now();
    let said = "";
    const output: Output =
      printed === "together"
        ? { print: (text) => void (said += text), from: "pipes" }
        : { print: this.#options.print, from: "our own" };
    output.print(`\n== ${suite.name}\n`);
    const outcome =
      suite.kind === "command" ? await this.#runCommand(suite, output) : await this.#runTests(suite.name, output);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    const note = outcome.note === undefined ? "" : `: ${outcome.note}`;
    output.print(`== ${suite.name} ${outcome.failed === 0 ? "passed" : "FAILED"} in ${seconds} s${note}\n`);
    if (said !== "") this.#options.print(said);
    return outcome;
  }

  async #runCommand({ name, command }: Suite & { kind: "command" }, output: Output): Promise<Outcome> {
    const failed = (await this.#spawn(command, output)) === 0 ? 0 : 1;
    return { suite: name, passed: 1 - failed, failed, skipped: [], files: [] };
  }

  async #runTests(name: string, output: Output): Promise<Outcome> {
    const first = await this.#runVitest(name, this.#options.filters, output);
    const again = this.#stoppedBy === undefined ? secondRun(first).map(({ file }) => file) : [];
    if (again.length === 0) return first;
    output.print(`\n== ${name}, a second time: ${again.join(", ")}\n`);
    // One file after the other: what failed for want of a core has both now.
    return bothRuns(first, await this.#runVitest(name, ["--no-file-parallelism", ...again], output));
  }

  /** @param more - options, and paths that narrow the suite */
  async #runVitest(suite: string, more: readonly string[], output: Output): Promise<Outcome> {
    const file = join(this.#options.results, `${suite}.json`);
    const reporters = ["--reporter", "agent", "--reporter", "./infra/test/reporter.ts"];
    const args = ["run", "--project", suite, "--passWithNoTests", ...reporters, ...more];
    rmSync(file, { force: true });
    const command = ["node_modules/vitest/vitest.mjs", ...args];
    const code = await this.#spawn(command, output, { [RESULT_FILE_VARIABLE]: file });
    const narrowed = more.some((one) => !one.startsWith("-")) ? "yes" : "no";
    return judge({ suite, code, result: readResult(file), narrowed });
  }

  /** @returns the exit code */
  #spawn(args: readonly string[], { print, from }: Output, env: Record<string, string> = {}): Promise<number> {
    return new Promise((resolve) => {
      const child = spawn(process.execPath, args, {
        cwd: this.#options.root,
        // one stream, so that the last line is the last line
        stdio: from === "our own" ? ["ignore", 1, 1] : ["ignore", "pipe", "pipe"],
        env: { ...process.env, ...this.#options.env, ...env },
      });
      for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", print);
      const forward = (signal: NodeJS.Signals): void => {
        this.#stoppedBy = signal;
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
}

/** Where the output of a suite goes. */
interface Output {
  readonly print: (text: string) => void;
  /** Its processes write to our own output, or to pipes, from which `print` takes it. */
  readonly from: "our own" | "pipes";
}

const namesOf = (suites: readonly Suite[]): string => suites.map(({ name }) => name).join(", ");
