/** The `tutti` command. */
import { EXIT } from "@tutti/admin";
import { commandLine } from "./command-line.ts";

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // The reader (`| head`) has closed the pipe.
  if (error.code === "EPIPE") process.exit();
  // On a full disk a cluster goes on without this output; a command whose output is incomplete has failed.
  process.exitCode ??= EXIT.failed;
});
process.stderr.on("error", () => undefined);
await commandLine(process.argv.slice(2));
