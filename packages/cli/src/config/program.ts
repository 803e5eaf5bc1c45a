/** `tutti config`, as `tutti --help` lists it. */
import type { Command } from "commander";

export function addConfig(program: Command): void {
  const config = program
    .command("config")
    .description("show what flags, environment and file come to")
    .enablePositionalOptions();
  config
    .command("print [command...]")
    .usage("[up | run <roles>] [-f tutti.yaml] [--json] [flags of that command...]")
    .description(
      "print every option in force of `tutti up` or `tutti run`, and where it comes from; nothing is started",
    )
    .addHelpText(
      "after",
      "\nA flag comes before the environment, that before the file, and that before the default.\nPasswords and tokens in addresses are not printed.",
    )
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) => (await import("../commands/config.ts")).printConfig(words));
}
