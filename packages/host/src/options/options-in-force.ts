/**
 * Which value of an option is in force, and who has said it.
 *
 *   CONF-1. A flag comes before the environment, that before the file, and that before the default.
 *   CONF-2. Every value is the text that a flag would give, so the four ways mean the same.
 */
import { CommandError, usageError } from "@tutti/admin";
import { type OptionSpec, variableOf } from "./option-spec.ts";

/** Values by the names of their options; switches are "true" or "false". */
export type GivenFlags = ReadonlyMap<string, string>;

export interface FileSetting {
  readonly value: string;
  /** `tutti.yaml:12`, and with the column for errors. */
  readonly line: string;
  readonly place: string;
}
export type FileSettings = ReadonlyMap<string, FileSetting>;

export interface OptionInForce {
  readonly spec: OptionSpec;
  /** Undefined: nobody has said one, and `spec.otherwise` says what happens then. */
  readonly value: string | undefined;
  readonly from: "flag" | "environment" | "file" | "default";
  /** `flag`, `env TUTTI_X`, `tutti.yaml:12` or `default`. */
  readonly source: string;
  /** Where an error in the value is to be mended; undefined: at the flag, which the error itself names. */
  readonly place?: string;
}

export interface Said {
  readonly flags: GivenFlags;
  readonly env: NodeJS.ProcessEnv;
  readonly file?: FileSettings | undefined;
}

export const optionsInForce = (specs: readonly OptionSpec[], said: Said): OptionInForce[] =>
  specs.map((spec) => inForce(spec, said));

function inForce(spec: OptionSpec, { flags, env, file }: Said): OptionInForce {
  const flag = flags.get(spec.name);
  if (flag !== undefined) return { spec, value: flag, from: "flag", source: "flag" };
  const variable = variableOf(spec);
  const value = variable === undefined ? undefined : env[variable];
  if (value !== undefined && isMeant(spec, value))
    return { spec, value: checked(spec, value), from: "environment", source: `env ${variable}`, place: variable! };
  const setting = file?.get(spec.name);
  if (setting !== undefined)
    return { spec, value: setting.value, from: "file", source: setting.line, place: setting.place };
  const usual = spec.default ?? (spec.value === undefined ? "false" : undefined);
  return { spec, value: usual, from: "default", source: "default" };
}

/**
 * Whether a variable sets its option. An empty one doesn't. Kubernetes gives every pod `TUTTI_HTTP_PORT=tcp://…` for a
 * service that is called `tutti-http`.
 */
const isMeant = ({ value: placeholder }: OptionSpec, value: string): boolean =>
  value !== "" && !(placeholder === "port" && value.startsWith("tcp://"));

/** @throws {CommandError} a switch is neither true nor false */
function checked(spec: OptionSpec, value: string): string {
  if (spec.value !== undefined || value === "true" || value === "false") return value;
  throw usageError(`${variableOf(spec)}=${value}: true or false`);
}

/**
 * The error with the place at which its value was said. Parsers name an option as `--name`, which is where it stands
 * only for a flag.
 */
export function placed(error: unknown, options: readonly OptionInForce[]): unknown {
  if (!(error instanceof CommandError)) return error;
  const byName = new Map(options.map((option) => [option.spec.name, option]));
  for (const [, name] of error.message.matchAll(/--([a-z0-9-]+)/g)) {
    const place = byName.get(name!)?.place;
    if (place !== undefined) return new CommandError(`${place}: ${error.message}`, error.exitCode, error);
  }
  return error;
}

/**
 * The settings of the file, as variables for a process of ours. That process' own flags come before them, as they come
 * before the file.
 */
export const fileVariables = (options: readonly OptionInForce[]): Record<string, string> =>
  Object.fromEntries(
    options.flatMap(({ spec, value, from }): [string, string][] => {
      const variable = variableOf(spec);
      return from === "file" && variable !== undefined && value !== undefined ? [[variable, value]] : [];
    }),
  );

/** Values by the names of options, for parsers. Switches that are off are left out. */
export function valuesOf(options: readonly OptionInForce[]): ReadonlyMap<string, string> {
  const said = options.flatMap(({ spec, value }): [string, string][] =>
    value === undefined || (spec.value === undefined && value === "false") ? [] : [[spec.name, value]],
  );
  return new Map(said);
}
