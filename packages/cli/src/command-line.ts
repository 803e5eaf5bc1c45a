/** Runs a command line, and tells what fails: a mistake in it, or the command. */
import { EXIT, report, usageError } from "@tutti/admin";
import { createProgram } from "./program.ts";
import { withCurrentNames } from "@tutti/host";

export async function commandLine(argv: readonly string[]): Promise<void> {
  const program = createProgram();
  const isJson = argv.includes("--json");
  try {
    await program.parseAsync(withCurrentNames(withoutVersionFlag(argv)), { from: "user" });
  } catch (error) {
    // commander has already printed its own errors (and help); they count as wrong usage.
    if (!isUsage(error)) report(error, isJson);
    else if (error.exitCode === 0) process.exitCode = EXIT.ok;
    else if (isJson) report(usageError(textOf(error)), true);
    else process.exitCode = EXIT.usage;
  }
}

/** `tutti --version` is the command `tutti version`, by the name under which every program has it. */
const withoutVersionFlag = ([first, ...rest]: readonly string[]): string[] =>
  first === undefined ? [] : [first === "--version" || first === "-V" ? "version" : first, ...rest];

interface UsageMistake extends Error {
  readonly code: string;
  readonly exitCode: number;
}

const isUsage = (error: unknown): error is UsageMistake =>
  error instanceof Error && "code" in error && String(error.code).startsWith("commander.");

/** commander answers a command that only has commands of its own with its help. */
const textOf = ({ code, message }: UsageMistake): string =>
  code === "commander.help" ? "which command of it? --help lists them" : message.replace(/^error: /, "");
