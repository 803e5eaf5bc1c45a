/** The Helm chart's values and their schema, and what its templates repeat from the code. These tests need no helm. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { natsConfig } from "@tutti/bus-nats";
import { FLAGS } from "@tutti/host";
import { schemaCheck } from "@tutti/sim-report/scenario-schema";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { CHART_SCHEMA, NOT_OF_PODS, SET_BY_CHART } from "../docs/reference/chart-schema.ts";
import { CHART, ROOT } from "./helm.ts";

interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}

const values = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as Readonly<Record<string, unknown>>;
const schema = JSON.parse(readFileSync(CHART_SCHEMA, "utf8")) as Schema;
const check = schemaCheck(pathToFileURL(CHART_SCHEMA));
const templates = readdirSync(join(CHART, "templates")).map((name) =>
  readFileSync(join(CHART, "templates", name), "utf8"),
);

/** Every path of a schema, with what is there. */
function* walk(at: Schema, path: readonly string[] = []): Generator<readonly [path: string, at: Schema]> {
  for (const [key, inner] of Object.entries(at.properties ?? {})) {
    yield [[...path, key].join("."), inner];
    yield* walk(inner, [...path, key]);
  }
}

test("the default values are as their schema has them, and every value is described", () => {
  expect(check(values)).toEqual([]);
  const undescribed = [...walk(schema)].filter(([, { description }]) => (description ?? "").length < 5);
  expect(undescribed.map(([path]) => path)).toEqual([]);
});

test("every value of the schema has a default, and every default stands in the schema", () => {
  const known = [...walk(schema)].map(([path]) => path).filter((path) => !/^(global$|config\.)/.test(path));
  const paths = (value: unknown, path: readonly string[]): string[] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.entries(value).flatMap(([key, inner]) => {
          const at = [...path, key];
          // Below an object without declared keys everything is Kubernetes' own.
          return known.includes(at.join(".")) ? [at.join("."), ...paths(inner, at)] : [];
        })
      : [];
  expect(paths(values, []).toSorted()).toEqual(known.toSorted());
});

test("every value is one that a template reads", () => {
  const text = templates.join("\n");
  const leaves = [...walk(schema)].filter(
    ([path, { properties }]) => properties === undefined && !/^(global$|config\.)/.test(path),
  );
  const unread = leaves.map(([path]) => path).filter((path) => !text.includes(path.split(".").at(-1)!));
  expect(unread).toEqual([]);
});

test("a misspelt value and an option that the chart sets itself are refused by name", () => {
  const problem = (document: object): string | undefined => {
    const [first] = check(document);
    return first && `${first.path.join(".")}: ${first.text}`;
  };
  expect(problem({ executor: { replcas: 3 } })).toContain('did you mean "replicas"');
  expect(problem({ config: { polcy: "eager" } })).toContain('did you mean "policy"');
  expect(problem({ config: { "http-port": 80 } })).toContain("config.http-port: unknown key");
  expect(problem({ node: { replicas: "two" } })).toBeDefined();
  expect(problem({ nats: { url: "localhost" } })).toBeDefined();
});

test("what values can't name are options, and none of them stands in the schema", () => {
  const options = FLAGS.map(({ name }) => name);
  const left = [...SET_BY_CHART, ...NOT_OF_PODS];
  expect(left.filter((name) => !(options as readonly string[]).includes(name))).toEqual([]);
  const given = Object.keys(schema.properties!["config"]!.properties!);
  expect(left.filter((name) => given.includes(name))).toEqual([]);
});

test("options that values can't name are set by the chart: in tutti.yaml, or in a pod's environment", () => {
  const text = templates.join("\n");
  const variable = (name: string): string => `TUTTI_${name.toUpperCase().replaceAll("-", "_")}`;
  const unset = SET_BY_CHART.filter((name) => !text.includes(`"${name}"`) && !text.includes(variable(name)));
  expect(unset).toEqual([]);
});

test("the NATS servers of the chart have the limits of those of `tutti auth`", () => {
  const written = natsConfig({ port: 4222, storeDir: "/data" });
  const nats = templates.find((text) => text.includes("tutti.natsConfig"))!;
  const limits = [...written.matchAll(/^(max_(?!control)\w+|write_deadline): .+$/gm)].map(([line]) => line);
  expect(limits.length).toBeGreaterThan(3);
  for (const line of limits) expect(nats).toContain(line);
});

test("pods have longer than a drain takes", () => {
  const run = readFileSync(join(ROOT, "packages/cli/src/commands/run.ts"), "utf8");
  const stopMs = Number(/STOP_MS = ([\d_]+)/.exec(run)?.[1]?.replaceAll("_", ""));
  for (const name of ["node.yaml", "executor.yaml"]) {
    const text = readFileSync(join(CHART, "templates", name), "utf8");
    const grace = Number(/terminationGracePeriodSeconds: (\d+)/.exec(text)?.[1]);
    const sleep = Number(/preStop: \{ sleep: \{ seconds: (\d+) \} \}/.exec(text)?.[1] ?? 0);
    expect([name, (grace - sleep) * 1_000 > stopMs]).toEqual([name, true]);
  }
});

test("the README's certificate has the name by which the executors of its second release reach NATS", () => {
  const readme = readFileSync(join(CHART, "README.md"), "utf8");
  const hosts = /certificate nats --hosts '([^']+)'/.exec(readme)![1]!.split(",");
  const urls = [...readme.matchAll(/nats\.url=(\S+)/g)].map(([, url]) => new URL(url!));
  expect(urls.map(({ hostname }) => hosts.includes(hostname))).toEqual([true]);
  const installs = readme.match(/^helm install (?:.*\\\n)*.*$/gm)!;
  expect(installs).toHaveLength(3);
  for (const command of installs) expect(command).toContain("--set image.repository=");
  for (const command of installs.slice(1)) expect(command).toContain("--set auth.tls=true");
});
