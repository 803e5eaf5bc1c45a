/**
 * docs/reference/configuration.md: files and environment. Keys and their comments come from the types that the files
 * are read into.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { FLAGS, type OptionSpec, UP_OPTIONS, describe, kindOf, variableOf } from "@tutti/host";
import { ROLES } from "@tutti/protocol";
import { type Member, ROOT, membersOf, table } from "./code-comments.ts";

/** Environment variables. The set must equal that of the sources: environmentOfSources(). */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  TUTTI_NATS: "servers of the cluster, separated by commas; for every command and role",
  TUTTI_CREDS: "file with credentials, for every command and role",
  TUTTI_TLS_CA: "certificate of the authority: TLS for every connection",
  TUTTI_RUN_DIR:
    "where `tutti up` keeps what it needs while it runs, and other commands look for it (default: `.tutti/run` of the repository, or `run` in TUTTI_HOME)",
  TUTTI_HOME:
    "folder of the published `tutti`, for what it brings and for running clusters (default: `tutti` in the user's folder for caches)",
  TUTTI_MODEL_CACHE:
    "folder for models that were fetched from elsewhere (default: `models/fetched` beside the folder of TUTTI_RUN_DIR)",
  TUTTI_MODEL_CACHE_SIZE: "how much it holds; what was used longest ago goes first; 0: nothing is kept (default: 20GB)",
  TUTTI_NATS_SERVER: "path of the `nats-server` to start; set by `npm start` once it has found or brought one",
  TUTTI_NATS_SOURCES: "where `npm start` may take a `nats-server` from, in order, for this run alone (infra/README.md)",
  TUTTI_JAEGER: "path of a Jaeger to start; set by `npm start -- --jaeger` once it has found one",
  TUTTI_JAEGER_COMES: "set by `npm start -- --jaeger` where it brings a Jaeger while the system serves",
  TUTTI_JAEGER_SOURCES: "where `npm start -- --jaeger` may take one from, in order (infra/jaeger)",
  TUTTI_CHROMIUM: "path of the Chromium that tests open pages with; empty: none (infra/chromium)",
  TUTTI_LAST_END: "set for a process that is started again: how the one before it ended",
  TUTTI_HELD: "set for a process that takes another's place: it loads, and waits until it is let go",
  TUTTI_PROCESS: "set for every process of `tutti up`: its name in the logs",
};

const SCANNED = ["packages", "services", "infra"];
/** Variables that the sources read by `env["…"]` or `env.…`, or set for a process that they start. */
export function environmentOfSources(): string[] {
  const found = new Set<string>();
  for (const folder of SCANNED)
    for (const file of readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })) {
      if (!/\.(ts|mjs)$/.test(file) || /node_modules|\.test\.|testing/.test(file)) continue;
      const text = readFileSync(join(ROOT, folder, file), "utf8");
      for (const [, name = ""] of text.matchAll(/\benv(?:\["|\.)(TUTTI_[A-Z_]+)/g)) found.add(name);
    }
  return [...found].toSorted();
}

const rows = (members: readonly Member[], before = ""): string[][] =>
  members.map(({ name, text, comment, isOptional }) => [
    `\`${before}${name}\``,
    `\`${text.replaceAll("readonly ", "").replaceAll(/\s+/g, " ")}\``,
    isOptional ? "" : "yes",
    comment,
  ]);

export function configurationReference(): string {
  const config = "packages/onnx-tools/src/model-config.ts";
  const axes = "packages/onnx-tools/src/axis-config.ts";
  const heads = ["key", "type", "needed", "what"];
  return [
    "# Configuration",
    "Processes are configured by flags ([commands](cli.md)), the environment, and a file; everything about models, plans and profiles lives in the cluster's store and is changed by commands. What remains are a model's `config.yaml`, and files of single commands.",
    "## Processes: tutti.yaml",
    "`tutti up -f tutti.yaml` and `tutti run <roles> -f tutti.yaml` take from it what neither a flag nor the environment says. Keys are the flags without their dashes. Relative paths are relative to the file, and lists may be written as such. A key that `tutti run` has for other roles is passed over, so the processes of a host can share one file.",
    "`tutti config print` shows every option in force and where it comes from. An empty variable sets nothing. `--no-<flag>` turns off a switch that the file or the environment turns on. An editor that knows `# yaml-language-server: $schema=…` checks the file by [tutti.schema.json](../../packages/cli/src/config/tutti.schema.json).",
    table(["key", "variable", "of", "what"], optionRows()),
    "## A model: config.yaml",
    "Beside `model.onnx`, or in the folder above its version as Triton has it; or `--config` of `tutti load`. Flags of `tutti load` come first. How axes are padded is told with examples in [packages/onnx-tools](../../packages/onnx-tools/README.md).",
    table(heads, [...rows(membersOf(config, "ModelConfig")), ...rows(membersOf(axes, "AxesConfig"))]),
    "An axis, below `axes`:",
    table(heads, rows(membersOf(axes, "AxisConfig"), "axes.<axis>.")),
    "An axis of outputs, below `cut`:",
    table(heads, rows(membersOf(axes, "CutConfig"), "cut.<axis>.")),
    "An input or output:",
    table(heads, rows(membersOf(config, "ValueConfig"), "input[].")),
    "## A mix of load: `tutti bench --mix mix.yaml`",
    "`streams:`, a list of:",
    table(heads, mixRows()),
    "## Environment",
    table(
      ["variable", "what"],
      Object.entries(ENVIRONMENT).map(([name, text]) => [`\`${name}\``, text]),
    ),
    "## Elsewhere",
    "- Pipelines: [packages/pipelines](../../packages/pipelines/README.md)\n- Emulated models and accelerators (`--emulate`): [packages/ports/src/engine](../../packages/ports/src/engine/README.md)\n- Scenarios of the simulator: [docs/simulator.md](../simulator.md)\n- Inputs of `tutti plan`: [docs/planning.md](../planning.md)\n- Credentials, users and TLS: [docs/security.md](../security.md)",
  ].join("\n\n");
}

/** A row for each option; one that `tutti up` and roles share has the text of the former. */
function optionRows(): string[][] {
  const roleFlags = new Map(FLAGS.map((flag) => [flag.name, flag]));
  const own = UP_OPTIONS.map((spec) => {
    const flag = roleFlags.get(spec.name);
    const differs = flag !== undefined && kindOf(flag).kind !== kindOf(spec).kind;
    const text = differs ? `${describe(spec)}; of ${rolesOf(flag)}: ${describe(flag)}` : describe(inFile(spec));
    return optionRow(
      spec,
      variableOf(flag ?? spec),
      ["`tutti up`", ...(flag === undefined ? [] : [rolesOf(flag)])],
      text,
    );
  });
  const others = FLAGS.filter(({ name }) => UP_OPTIONS.every((spec) => spec.name !== name));
  return [...own, ...others.map((flag) => optionRow(flag, variableOf(flag), [rolesOf(flag)], describe(flag)))];
}

const optionRow = (spec: OptionSpec, variable: string | undefined, of: readonly string[], text: string): string[] => [
  `\`${spec.name}\``,
  variable === undefined ? "" : `\`${variable}\`${spec.noVariable === undefined ? "" : " (not `tutti up`)"}`,
  of.join(", "),
  text.replaceAll("|", "\\|"),
];

const rolesOf = ({ roles }: { readonly roles: readonly string[] }): string =>
  roles.length === ROLES.length ? "every role" : roles.join(", ");

/** A switch that is on by default is set by its name in the file, and not by its flag. */
const inFile = (spec: OptionSpec): OptionSpec =>
  spec.value === undefined && spec.default !== undefined ? { ...spec, value: "" } : spec;

const mixRows = (): string[][] =>
  membersOf("packages/cli/src/bench/mix.ts", "MixEntry").map(({ name, text, comment }) => [
    `\`${name}\``,
    `\`${text.replace("Micros", "duration").replace(" | undefined", "")}\``,
    name === "model" ? "yes" : "",
    comment,
  ]);
