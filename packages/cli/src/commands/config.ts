import { didYouMean, renderTable, usageError } from "@tutti/admin";
import { type OptionInForce, kindOf } from "@tutti/host";
import { readRoleOptions } from "@tutti/host/role";
import { readUpOptions } from "@tutti/host/up";
import { shownAddresses } from "@tutti/units";
import { roleOptions, rolesOf, upOptions } from "../config/command-options.ts";
import { createProgram } from "../program.ts";

/**
 * `tutti config print [up | run <roles>] [flags]`: prints the options in force, after the checks that the command
 * itself would make.
 */
export async function printConfig(words: readonly string[]): Promise<void> {
  const asJson = words.includes("--json");
  const rest = words.filter((word) => word !== "--json");
  const [verb = "up", ...more] = rest[0]?.startsWith("-") === true ? ["up", ...rest] : rest;
  const { command, options } = await optionsOf(verb, more);
  const shown = options.map((option) => ({
    name: option.spec.name,
    value: option.value === undefined ? undefined : withoutSecrets(option, option.value),
    otherwise: option.value === undefined ? option.spec.otherwise : undefined,
    source: option.source,
  }));
  if (asJson) {
    const list = shown.map((option) => ({ ...option, value: option.value ?? null }));
    process.stdout.write(`${JSON.stringify({ command, options: list })}\n`);
    return;
  }
  const rows = shown.map(({ name, value, otherwise, source }) => [name, value ?? `(${otherwise ?? "none"})`, source]);
  process.stdout.write(`${renderTable(["option", "value", "source"], rows)}\n`);
}

/** @throws {CommandError} the command would refuse them */
async function optionsOf(
  verb: string,
  words: readonly string[],
): Promise<{ readonly command: string; readonly options: readonly OptionInForce[] }> {
  if (verb === "up") {
    const options = await typedUpOptions(words);
    readUpOptions(options);
    return { command: "up", options };
  }
  if (verb === "run") {
    const [list = "", ...flags] = words;
    const options = await roleOptions(rolesOf(list), flags);
    readRoleOptions(options);
    return { command: `run ${list}`, options };
  }
  throw usageError(`"${verb}" has no options to print${didYouMean(verb, ["up", "run"])}; give up or run <roles>`);
}

async function typedUpOptions(words: readonly string[]): Promise<readonly OptionInForce[]> {
  const program = createProgram();
  const command = program.commands.find((one) => one.name() === "up")!;
  command.action(() => undefined);
  await program.parseAsync(["up", ...words], { from: "user" });
  return upOptions(command);
}

/** Files of secrets are printed by their names. */
function withoutSecrets({ spec }: OptionInForce, value: string): string {
  return kindOf(spec).kind.startsWith("path") && !value.includes("://") ? value : shownAddresses(value);
}
