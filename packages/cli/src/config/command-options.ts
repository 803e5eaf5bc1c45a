/** The options of one `tutti up` or `tutti run`: flags, environment, file and defaults together. */
import { didYouMean, usageError } from "@tutti/admin";
import { FILE_OPTION, type GivenFlags, type OptionInForce, UP_OPTIONS, fieldOf, upOptionsInForce } from "@tutti/host";
import { parseRoleFlags, roleOptionsInForce } from "@tutti/host/role";
import { NODE_ROLES, ROLES, type Role, isRole } from "@tutti/protocol";
import type { Command } from "commander";
import { type ConfiguredCommand, readConfigFile } from "./config-file.ts";

/** @throws {CommandError} naming file, line and column of every error in the file */
export async function upOptions(command: Command, env: NodeJS.ProcessEnv = process.env): Promise<OptionInForce[]> {
  const flags = typedFlags(command);
  return upOptionsInForce({ flags, env, file: await fileOf(flags, "up") });
}

/** @throws {CommandError} naming file, line and column of every error in the file */
export async function roleOptions(
  roles: readonly Role[],
  argv: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<OptionInForce[]> {
  const flags = parseRoleFlags(roles, argv, [FILE_OPTION]);
  return roleOptionsInForce(roles, { flags, env, file: await fileOf(flags, "run") });
}

const fileOf = async (flags: GivenFlags, command: ConfiguredCommand) => {
  const path = flags.get(FILE_OPTION.name);
  return path === undefined ? undefined : readConfigFile(path, command);
};

/** The flags that were typed: commander's defaults are not among them. */
export function typedFlags(command: Command): GivenFlags {
  const typed = [FILE_OPTION, ...UP_OPTIONS].filter(
    ({ name }) => command.getOptionValueSource(fieldOf(name)) === "cli",
  );
  return new Map(typed.map(({ name }) => [name, String(command.getOptionValue(fieldOf(name)))]));
}

/** The words of the flags, for the command line of a process that reads no file. */
export const flagWords = (options: readonly OptionInForce[]): string[] =>
  options
    .filter(({ from }) => from === "flag")
    .map(({ spec: { name, value: placeholder }, value }) => {
      if (placeholder !== undefined) return `--${name}=${value}`;
      return value === "true" ? `--${name}` : `--no-${name}`;
    });

/**
 * The roles of `tutti run <roles>`: one, several with commas between them, or `node`.
 *
 * @throws {CommandError} there is no such role
 */
export const rolesOf = (list: string): readonly Role[] => (list === "node" ? NODE_ROLES : list.split(",").map(roleOf));

function roleOf(role: string): Role {
  if (isRole(role)) return role;
  const known = [...ROLES, "node"];
  throw usageError(`there is no role "${role}"${didYouMean(role, known)}; roles are ${known.join(", ")}`);
}
