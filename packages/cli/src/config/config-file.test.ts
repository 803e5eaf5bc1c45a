import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { stringify } from "yaml";
import {
  type FileSettings,
  type OptionSpec,
  UP_OPTIONS,
  fileVariables,
  kindOf,
  valuesOf,
  variableOf,
} from "@tutti/host";
import { FLAGS, flagsOf, parseRoleFlags, roleOptionsInForce } from "@tutti/host/role";
import { upOptionsInForce } from "@tutti/host";
import { EXIT } from "@tutti/admin";
import { ROLES } from "@tutti/protocol";
import { createProgram } from "../program.ts";
import { flagWords, typedFlags } from "./command-options.ts";
import { type ConfiguredCommand, configSettings, readConfigFile } from "./config-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

const read = (text: string, command: ConfiguredCommand = "up"): Record<string, string> =>
  Object.fromEntries([...configSettings(text, "/etc/tutti/t.yaml", command)].map(([name, { value }]) => [name, value]));
const refusal = (text: string, command: ConfiguredCommand = "up"): string => {
  try {
    configSettings(text, "t.yaml", command);
  } catch (error) {
    expect(error).toMatchObject({ name: "CommandError", exitCode: EXIT.usage });
    return (error as Error).message;
  }
  throw new Error(`it is taken:\n${text}`);
};

test("keys are flags without dashes, values are written as YAML has them, and paths are relative to the file", () => {
  const text = `
# yaml-language-server: $schema=./tutti.schema.json
policy: timeout:5ms
demo: false
json: true
http-port: 8100
budget-share: 0.25
apps: [shop, camera]
models: models
creds: /run/creds
jwks: https://id.example/keys
autoscale: 1:4
memory: 4GB
`;
  expect(read(text)).toEqual({
    ...{ policy: "timeout:5ms", demo: "false", json: "true", "http-port": "8100", "budget-share": "0.25" },
    ...{ apps: "shop,camera", models: "/etc/tutti/models", creds: "/run/creds", jwks: "https://id.example/keys" },
    ...{ autoscale: "1:4", memory: "4GB" },
  });
  expect(read("divide: true\n")).toEqual({ divide: "true" });
  expect(read("divide: measured.yaml\njwks: keys.json\n")).toEqual({
    divide: "/etc/tutti/measured.yaml",
    jwks: "/etc/tutti/keys.json",
  });
  expect(read("gpus: [0, 2-4]\nnats: [nats://a, nats://b]\n", "run")).toEqual({
    gpus: "0,2-4",
    nats: "nats://a,nats://b",
  });
  expect([read(""), read("# nothing\n"), read("$schema: x.json\n")]).toEqual([{}, {}, {}]);
});

test("the roles of a host share one file: keys of other roles are passed over, those of another command are not", () => {
  const shared = "policy: eager\nhttp-port: 8000\ngpus: 1\n";
  const settings = configSettings(shared, "t.yaml", "run");
  const inForce = roleOptionsInForce(["ranker", "batcher"], { flags: new Map(), env: {}, file: settings });
  expect(inForce.filter(({ from }) => from === "file").map(({ spec, source }) => [spec.name, source])).toEqual([
    ["policy", "t.yaml:1"],
  ]);
  expect(refusal("executors: 2\n", "run")).toBe(
    "t.yaml:1:1: executors: `tutti run` has no such option; it is one of `tutti up`",
  );
  expect(refusal("\ndata-host: a\n")).toBe(
    "t.yaml:2:1: data-host: `tutti up` has no such option; it is one of `tutti run ingress`",
  );
});

test.for([
  ["a misspelt key", "nats: nats://a\n  \npolcy: eager\n", 't.yaml:3:1: polcy: unknown key; did you mean "policy"?'],
  ["a key in camel case", "httpPort: 1\n", 't.yaml:1:1: httpPort: unknown key; did you mean "http-port"?'],
  ["a key that is like none", "frobnicate: 1\n", "t.yaml:1:1: frobnicate: unknown key; remove it. Known here: layout,"],
  [
    "a value that is none of the choices",
    "provider: tpu\n",
    't.yaml:1:11: provider: "tpu" is not known; give cpu, webgpu, cuda',
  ],
  ["a text for a number", "nodes: two\n", 't.yaml:1:8: nodes: "two" must be integer; give a whole number'],
  ["a port that is none", "http-port: 70000\n", "t.yaml:1:12: http-port: 70000 must be <= 65535; give a port"],
  ["a text for a switch", "json: yes\n", 't.yaml:1:7: json: "yes" must be boolean; give true or false'],
  ["a key without a value", "models:\n", "t.yaml:1:8: models: null must be string; give a path"],
  ["a map for a value", "policy: { kind: eager }\n", 't.yaml:1:9: policy: {"kind":"eager"} must be string,number'],
  ["a key that stands twice", "policy: eager\npolicy: latest\n", "t.yaml:2:1: Map keys must be unique"],
  ["a list", "- policy\n", "t.yaml:1:1: a configuration is a map of options, such as `policy: eager`"],
  ["no YAML", "policy: [\n", "t.yaml:2:1: "],
] as const)("%s is refused by line and column, in one line", ([, text, start]) => {
  const said = refusal(text);
  expect(said.startsWith(start), said).toBe(true);
  expect(said.split("\n")).toHaveLength(1);
});

test("all errors of a file are told at once, a line each", () => {
  expect(
    refusal("gather: x\nnodes: y\nprefer: z\n")
      .split("\n")
      .map((line) => line.split(" ")[0]),
  ).toEqual(["t.yaml:1:9:", "t.yaml:2:8:", "t.yaml:3:9:"]);
});

test("a file that isn't there is named", async () => {
  await expect(readConfigFile(join(folder, "none.yaml"), "up")).rejects.toThrow(
    "none.yaml can't be read (there is no such file)",
  );
  await expect(readConfigFile(folder, "up")).rejects.toThrow("can't be read (EISDIR)");
});

/** A value as the file has it, and as a flag. */
interface Value {
  readonly inFile: unknown;
  readonly flag: string;
}

const value = (inFile: unknown, flag = String(inFile)): Value => ({ inFile, flag });
const word = fc.stringMatching(/^[a-z][a-z0-9]{0,5}$/);

function values(spec: OptionSpec): fc.Arbitrary<Value> {
  const kind = kindOf(spec);
  switch (kind.kind) {
    case "switch":
      return fc.boolean().map((on) => value(on));
    case "choice":
      return fc.constantFrom(...kind.choices).map((choice) => value(choice));
    case "count":
    case "port":
      return fc.nat(65_535).map((count) => value(count));
    case "number":
      return fc.double({ min: 0, max: 1, noNaN: true }).map((share) => value(share));
    case "path":
    case "path-or-url":
      return fc.oneof(
        word.map((name) => value(name, join(folder, name))),
        word.map((name) => value(`/${name}`)),
      );
    case "list":
      return fc
        .array(word, { minLength: 1, maxLength: 3 })
        .chain((names) => fc.constantFrom(value(names, names.join(",")), value(names.join(","))));
    case "text":
      return fc.oneof(
        word.map((text) => value(text)),
        fc.nat(100).map((count) => value(count)),
      );
  }
}

type Way = "flag" | "environment" | "file";
interface Choice extends Value {
  readonly spec: OptionSpec;
  /** The way that says it, and a weaker one that says something else. */
  readonly way: Way;
  readonly overridden: Value | undefined;
}

const choicesOf = (specs: readonly OptionSpec[]): fc.Arbitrary<Choice[]> =>
  fc
    .subarray([...specs])
    .chain((some) =>
      fc.tuple(
        ...some.map((spec) =>
          fc
            .tuple(values(spec), fc.constantFrom<Way>("flag", "environment", "file"), fc.option(values(spec)))
            .map(([said, way, other]): Choice => {
              const possible = way === "environment" && variableOf(spec) === undefined ? "flag" : way;
              return {
                ...said,
                spec,
                way: possible,
                overridden: possible === "file" ? undefined : (other ?? undefined),
              };
            }),
        ),
      ),
    )
    .map((choices) => [...choices]);

const flagWord = ({ spec, flag }: Choice): string => {
  if (spec.value === undefined) return flag === "true" ? `--${spec.name}` : `--no-${spec.name}`;
  return `--${spec.name}=${flag}`;
};

/** The choices as each way has them. */
function split(choices: readonly Choice[], command: ConfiguredCommand) {
  const by = (way: Way): Choice[] => choices.filter((choice) => choice.way === way);
  const settings = [
    ...by("file").map(({ spec, inFile }) => [spec.name, inFile] as const),
    ...choices.flatMap(({ spec, overridden }) => (overridden === undefined ? [] : [[spec.name, overridden.inFile]])),
  ] as [string, unknown][];
  const file: FileSettings = configSettings(stringify(Object.fromEntries(settings)), join(folder, "t.yaml"), command);
  const env = Object.fromEntries(by("environment").map(({ spec, flag }) => [variableOf(spec)!, flag]));
  return { argv: by("flag").map(flagWord), env, file };
}

async function upFlags(argv: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const program = createProgram();
  const command = program.commands.find((one) => one.name() === "up")!;
  command.action(() => undefined);
  await program.parseAsync(["up", ...argv], { from: "user" });
  return typedFlags(command);
}

test("options of `tutti up`, split over file, environment and flags, mean what flags alone mean (CONF-2)", async () => {
  // `--divide` alone means true, and only the file has a word for false.
  const specs = UP_OPTIONS.filter(({ isValueOptional }) => isValueOptional !== true);
  await fc.assert(
    fc.asyncProperty(choicesOf(specs), async (choices) => {
      const { argv, env, file } = split(choices, "up");
      const together = upOptionsInForce({ flags: await upFlags(argv), env, file });
      const alone = upOptionsInForce({ flags: await upFlags(choices.map(flagWord)), env: {} });
      expect(valuesOf(together)).toEqual(valuesOf(alone));
    }),
    { numRuns: 50 },
  );
});

test("options of roles, split over file, environment and flags, mean what flags alone mean, also to the role's process (CONF-2)", () => {
  const all = fc
    .subarray([...ROLES], { minLength: 1 })
    .chain((roles) => fc.tuple(fc.constant(roles), choicesOf(flagsOf(roles))));
  fc.assert(
    fc.property(all, ([roles, choices]) => {
      const { argv, env, file } = split(choices, "run");
      const together = roleOptionsInForce(roles, { flags: parseRoleFlags(roles, argv), env, file });
      const alone = roleOptionsInForce(roles, { flags: parseRoleFlags(roles, choices.map(flagWord)), env: {} });
      expect(valuesOf(together)).toEqual(valuesOf(alone));
      const child = { flags: parseRoleFlags(roles, flagWords(together)), env: { ...env, ...fileVariables(together) } };
      expect(valuesOf(roleOptionsInForce(roles, child))).toEqual(valuesOf(alone));
    }),
    { numRuns: 200 },
  );
});

test("every flag of every role is a key", () => {
  const text = stringify(Object.fromEntries(FLAGS.map((spec) => [spec.name, exampleOf(spec)])));
  expect([...configSettings(text, "t.yaml", "run").keys()]).toEqual(FLAGS.map(({ name }) => name));
});

const exampleOf = (spec: OptionSpec): unknown => fc.sample(values(spec), { numRuns: 1, seed: 1 })[0]!.inFile;
