/** The `tutti` command. */
import { EXIT, report, usageError } from "@tutti/admin";
import { createProgram } from "./program.ts";
import { withCurrentNames } from "@tutti/host";

async function main(argv: readonly string[]): Promise<void> {
  const program = createProgram();
  const isJson = argv.includes("--json");
  try {
    await program.parseAsync(withCurrentNames(withoutVersionFlag(argv)), { from: "user" });
  } catch (error) {
    // commander has already printed its own errors (and help); they count as wrong usage.
    if (!isUsage(error)) report(error, isJson);
    else if (error.exitCode === 0) process.exitCode = EXIT.ok;
    else if (isJson) report(usageError(error.message.replace(/^error: /, "")), true);
    else process.exitCode = EXIT.usage;
  }
}

/** `tutti --version` is the command `tutti version`, by the name under which every program has it. */
const withoutVersionFlag = ([first, ...rest]: readonly string[]): string[] =>
  first === undefined ? [] : [first === "--version" || first === "-V" ? "version" : first, ...rest];

const isUsage = (error: unknown): error is Error & { readonly exitCode: number } =>
  error instanceof Error && "code" in error && String(error.code).startsWith("commander.");

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // The reader (`| head`) has closed the pipe.
  if (error.code === "EPIPE") process.exit();
  // On a full disk a cluster goes on without this output; a command whose output is incomplete has failed.
  process.exitCode ??= EXIT.failed;
});
process.stderr.on("error", () => undefined);
await main(process.argv.slice(2));
