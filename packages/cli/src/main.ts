/** The `tutti` command. */
import { report } from "./failure.ts";
import { createProgram } from "./program.ts";

async function main(argv: readonly string[]): Promise<void> {
  const program = createProgram();
  try {
    await program.parseAsync([...argv], { from: "user" });
  } catch (error) {
    // commander has printed its own errors (and help) already; they are wrong usage.
    if (isUsage(error)) process.exitCode = error.exitCode === 0 ? 0 : 2;
    else report(error, argv.includes("--json"));
  }
}

const isUsage = (error: unknown): error is { readonly exitCode: number } =>
  error instanceof Error && "code" in error && String(error.code).startsWith("commander.");

// Whoever reads (`| head`) has read enough.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit();
});
await main(process.argv.slice(2));
