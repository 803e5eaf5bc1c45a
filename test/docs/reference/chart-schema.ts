/** The part of the Helm chart's values.schema.json that follows from the table of flags: `config`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { configSchema } from "@tutti/cli/config-schema";
import { FLAGS } from "@tutti/host";
import { ROOT } from "./code-comments.ts";

export const CHART_SCHEMA = join(ROOT, "infra/deploy/chart/values.schema.json");

/** Options that the chart sets itself, from other values or for each pod. */
export const SET_BY_CHART: readonly string[] = [
  ...["nats", "creds", "answers-creds", "agent-creds", "repository-creds"],
  ...["tls-ca", "tls-cert", "tls-key", "http-tls-cert", "http-tls-key", "api-keys", "insecure-no-auth", "reply-scope"],
  ...["http-host", "http-port", "grpc-port", "metrics-host", "metrics-port", "health"],
  ...["provider", "gpus", "state", "data-host"],
];
/** Options that mean a host, a part of an accelerator, or a file that no pod has. */
export const NOT_OF_PODS: readonly string[] = ["host", "device", "part", "system-shared-memory", "admin-token"];

/** The text of values.schema.json, with `config` as the flags of `tutti run` are now. */
export function chartSchemaText(): string {
  const schema = JSON.parse(readFileSync(CHART_SCHEMA, "utf8")) as { properties: Record<string, object> };
  const { properties } = configSchema() as { properties: Record<string, object> };
  const names = FLAGS.map(({ name }) => name).filter(
    (name) => !SET_BY_CHART.includes(name) && !NOT_OF_PODS.includes(name),
  );
  schema.properties["config"] = {
    type: "object",
    description: "options of `tutti run` for all pods, as in tutti.yaml (docs/reference/configuration.md)",
    additionalProperties: false,
    properties: Object.fromEntries(names.map((name) => [name, properties[name]])),
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}
