/** Reads tutti.yaml: the options of `tutti up` and of `tutti run`, under the names of their flags. */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { FLAGS, type FileSetting, type FileSettings, type OptionSpec, UP_OPTIONS, kindOf } from "@tutti/host";
import { CommandError, EXIT, usageError } from "@tutti/admin";
import { LocatedYaml, type Problem } from "@tutti/sim-report/located-yaml";
import { schemaCheck } from "@tutti/sim-report/scenario-schema";
import { CONFIG_SCHEMA } from "./config-schema.ts";

export type ConfiguredCommand = "up" | "run";

const check = schemaCheck(CONFIG_SCHEMA);

const SPECS: Readonly<Record<ConfiguredCommand, ReadonlyMap<string, OptionSpec>>> = {
  up: new Map(UP_OPTIONS.map((spec) => [spec.name, spec])),
  run: new Map(FLAGS.map((spec) => [spec.name, spec])),
};

/** @throws {CommandError} naming file, line and column of every error, and saying what to write instead */
export async function readConfigFile(path: string, command: ConfiguredCommand): Promise<FileSettings> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? "there is no such file" : error.code;
    throw usageError(`--file ${path} can't be read (${why})`);
  });
  return configSettings(text, path, command);
}

/** @throws {CommandError} as `readConfigFile` */
export function configSettings(text: string, path: string, command: ConfiguredCommand): FileSettings {
  try {
    return settingsIn(text, path, command);
  } catch (error) {
    // A supervisor must not start a process again for what only an editor mends, so the exit code is that of bad flags.
    throw error instanceof CommandError ? new CommandError(error.message, EXIT.usage, error) : error;
  }
}

function settingsIn(text: string, path: string, command: ConfiguredCommand): FileSettings {
  const yaml = new LocatedYaml(text, path);
  const document = yaml.value ?? {}; // an empty file sets nothing
  if (typeof document !== "object" || Array.isArray(document))
    throw yaml.failure([{ path: [], text: "a configuration is a map of options, such as `policy: eager`" }]);
  const problems = check(document);
  if (problems.length > 0) throw yaml.failure(problems);
  const entries = Object.entries(document).filter(([name]) => name !== "$schema");
  const strange = entries.flatMap(([name]) => strangeOption(name, command));
  if (strange.length > 0) throw yaml.failure(strange);
  const specs = SPECS[command];
  return new Map(
    entries.map(([name, value]): [string, FileSetting] => {
      const place = yaml.placeOf({ path: [name] });
      const line = yaml.placeOf({ path: [name], at: "key" }).replace(/:\d+$/, "");
      return [name, { value: asFlag(specs.get(name)!, value, dirname(path)), place, line }];
    }),
  );
}

/** An option of the other command. Options of other roles are none: the roles of a host may share one file. */
function strangeOption(name: string, command: ConfiguredCommand): Problem[] {
  if (SPECS[command].has(name)) return [];
  const owner = command === "up" ? `\`tutti run ${FLAGS.find((flag) => flag.name === name)?.roles[0]}\`` : "`tutti up`";
  return [{ path: [name], at: "key", text: `\`tutti ${command}\` has no such option; it is one of ${owner}` }];
}

/** The value as its flag gives it. */
function asFlag(spec: OptionSpec, value: unknown, folder: string): string {
  const text = Array.isArray(value) ? value.join(",") : String(value);
  const { kind } = kindOf(spec);
  const isPath = kind === "path" || (kind === "path-or-url" && !URL.canParse(text));
  return isPath && typeof value === "string" ? resolve(folder, text) : text;
}
