/**
 * docs/reference/configuration.md: files and environment. Keys and their comments come from the types that the files
 * are read into.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type Member, ROOT, membersOf, table } from "./code-comments.ts";

/** Environment variables. The set must equal that of the sources: environmentOfSources(). */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  TUTTI_NATS: "servers of the cluster, separated by commas; for every command and role",
  TUTTI_CREDS: "file with credentials, for every command and role",
  TUTTI_ANSWERS_CREDS: "an ingress' credentials of the connection on which answers go out",
  TUTTI_TLS_CA: "certificate of the authority: TLS for every connection",
  TUTTI_TLS_CERT: "certificate of an ingress' data plane",
  TUTTI_TLS_KEY: "its key",
  TUTTI_RUN_DIR:
    "where `tutti up` keeps what it needs while it runs, and other commands look for it (default: `.tutti/run` of the repository)",
  TUTTI_AGENT_CREDS: "credentials of the agent that keeps a role started by `tutti run`",
  TUTTI_NATS_SERVER: "path of the `nats-server` to start; set by `npm start` once it has found or brought one",
  TUTTI_NATS_SOURCES: "where `npm start` may take a `nats-server` from, in order (infra/setup)",
  TUTTI_JAEGER: "path of a Jaeger to start; set by `npm start -- --jaeger` once it has found or brought one",
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
    "Processes are configured by flags ([commands](cli.md)); everything about models, plans and profiles lives in the cluster's store and is changed by commands. What remains are a model's `config.yaml`, the environment, and files of single commands.",
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

const mixRows = (): string[][] =>
  membersOf("packages/cli/src/bench/mix.ts", "MixEntry").map(({ name, text, comment }) => [
    `\`${name}\``,
    `\`${text.replace("Micros", "duration").replace(" | undefined", "")}\``,
    name === "model" ? "yes" : "",
    comment,
  ]);
