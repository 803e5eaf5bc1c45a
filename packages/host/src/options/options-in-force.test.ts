import { CommandError } from "@tutti/admin";
import { expect, test } from "vitest";
import { BUDGET_SHARE, EPOCH, WARMUP_TIME } from "../role/role-defaults.ts";
import { FLAGS } from "../role/role-flags.ts";
import { parseRoleFlags, parseRoleOptions, roleOptionsInForce } from "../role/role-options.ts";
import { UP_OPTIONS, upFlagsOf, upOptionsInForce } from "../up/up-flags.ts";
import { parseUpOptions, readUpOptions } from "../up/up-options.ts";
import { type OptionSpec, describe, flagOf, kindOf, variableOf } from "./option-spec.ts";
import { type FileSettings, fileVariables, optionsInForce, placed } from "./options-in-force.ts";

const SPECS: readonly OptionSpec[] = [
  { name: "policy", value: "policy", text: "when", default: "adaptive" },
  { name: "http-port", value: "port", text: "port", otherwise: "8000" },
  { name: "jaeger", value: undefined, text: "traces", noVariable: "a test" },
  { name: "insecure-no-auth", value: undefined, text: "nobody asks" },
];

const fileWith = (settings: Readonly<Record<string, string>>): FileSettings =>
  new Map(
    Object.entries(settings).map(([name, value], i) => [
      name,
      { value, line: `t.yaml:${i + 1}`, place: `t.yaml:${i + 1}:9` },
    ]),
  );

const said = (
  flags: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv,
  file: Readonly<Record<string, string>>,
): string[] =>
  optionsInForce(SPECS, { flags: new Map(Object.entries(flags)), env, file: fileWith(file) }).map(
    ({ spec, value, source }) => `${spec.name}=${value} (${source})`,
  );

test("a flag comes before the environment, that before the file, and that before the default (CONF-1)", () => {
  const nothing = ["http-port=undefined (default)", "jaeger=false (default)", "insecure-no-auth=false (default)"];
  const [flag, env, file] = [{ policy: "eager" }, { TUTTI_POLICY: "latest" }, { policy: "deferred" }];
  expect(said(flag, env, file)).toEqual(["policy=eager (flag)", ...nothing]);
  expect(said({}, env, file)).toEqual(["policy=latest (env TUTTI_POLICY)", ...nothing]);
  expect(said({}, {}, file)).toEqual(["policy=deferred (t.yaml:1)", ...nothing]);
  expect(said({}, {}, {})).toEqual(["policy=adaptive (default)", ...nothing]);
});

test("a switch that the file or the environment turns on is turned off by what comes before", () => {
  const off = "insecure-no-auth=false";
  const env = { TUTTI_INSECURE_NO_AUTH: "true" };
  expect(said({ "insecure-no-auth": "false" }, env, {})).toContain(`${off} (flag)`);
  expect(said({}, { TUTTI_INSECURE_NO_AUTH: "false" }, { "insecure-no-auth": "true" })).toContain(
    `${off} (env TUTTI_INSECURE_NO_AUTH)`,
  );
  expect([...parseRoleFlags("gateway", ["--no-insecure-no-auth"])]).toEqual([["insecure-no-auth", "false"]]);
});

test("a variable that is empty, that Kubernetes sets for a service, or of another meaning sets nothing", () => {
  const env = { TUTTI_POLICY: "", TUTTI_HTTP_PORT: "tcp://10.0.0.1:80", TUTTI_JAEGER: "/usr/bin/jaeger" };
  expect(said({}, env, { "http-port": "8100" })).toEqual([
    "policy=adaptive (default)",
    "http-port=8100 (t.yaml:1)",
    "jaeger=false (default)",
    "insecure-no-auth=false (default)",
  ]);
  expect(() => said({}, { TUTTI_INSECURE_NO_AUTH: "yes" }, {})).toThrow("TUTTI_INSECURE_NO_AUTH=yes: true or false");
});

test("what `tutti up` starts is not led to another cluster by variables for other commands", () => {
  const others = ["nats", "creds", "tls-ca", "tls-cert", "tls-key"];
  expect(UP_OPTIONS.filter(({ name }) => others.includes(name)).map(variableOf)).toEqual(others.map(() => undefined));
  const env = { TUTTI_NATS: "nats://elsewhere:4222" };
  expect(readUpOptions(upOptionsInForce({ flags: new Map(), env })).nats).toBe(undefined);
  expect(parseRoleOptions("ranker", [], env).nats).toEqual(["nats://elsewhere:4222"]);
});

test("an error in a value says where it was said: in the file, in a variable, or in the flag that it names", () => {
  const options = optionsInForce(SPECS, {
    ...{ flags: new Map([["jaeger", "true"]]), env: { TUTTI_HTTP_PORT: "x" } },
    file: fileWith({ policy: "lazy" }),
  });
  const text = (error: Error): string => (placed(error, options) as Error).message;
  expect(text(new CommandError("--policy lazy: no"))).toBe("t.yaml:1:9: --policy lazy: no");
  expect(text(new CommandError("--http-port x: no"))).toBe("TUTTI_HTTP_PORT: --http-port x: no");
  expect(text(new CommandError("--jaeger: no"))).toBe("--jaeger: no");
  expect(text(new CommandError("--jaeger and --policy: no"))).toBe("t.yaml:1:9: --jaeger and --policy: no");
  expect(text(new Error("--policy"))).toBe("--policy"); // ours, with its stack
  expect(() => parseRoleOptions("batcher", [], { TUTTI_PATIENCE: "2" })).toThrow("TUTTI_PATIENCE: --patience 2");
});

test("a process gets as variables what the file alone says", () => {
  const env = { TUTTI_POLICY: "eager" };
  const file = fileWith({ policy: "latest", patience: "0.5" });
  const options = roleOptionsInForce("batcher", { flags: new Map([["prefer", "latency"]]), env, file });
  expect(fileVariables(options)).toEqual({ TUTTI_PATIENCE: "0.5" });
});

test("defaults in the tables are those of the code, and every one can be given as a flag", () => {
  const { epoch, budgetShare, warmup } = parseRoleOptions("planner", [], {});
  expect([epoch, budgetShare, warmup]).toEqual([EPOCH, BUDGET_SHARE, WARMUP_TIME]);
  const said = { flags: new Map<string, string>(), env: {} };
  const { epoch: upEpoch, budgetShare: share, warmup: time } = parseUpOptions(upFlagsOf(upOptionsInForce(said)));
  expect([upEpoch, share, time]).toEqual([EPOCH, BUDGET_SHARE, WARMUP_TIME]);
  const argv = FLAGS.flatMap(({ name, default: usual }) => (usual === undefined ? [] : [`--${name}`, usual]));
  const every = [...new Set(FLAGS.flatMap(({ roles }) => roles))];
  expect(parseRoleOptions(every, argv, {})).toEqual(parseRoleOptions(every, [], {}));
});

test("no option is declared twice, or has a variable that means something else", () => {
  const taken = [
    "TUTTI_JAEGER",
    "TUTTI_RUN_DIR",
    "TUTTI_NATS_SERVER",
    "TUTTI_HELD",
    "TUTTI_PROCESS",
    "TUTTI_LAST_END",
    "TUTTI_HOME",
    "TUTTI_LINKS",
  ];
  for (const specs of [UP_OPTIONS, FLAGS] as const) {
    expect(new Set(specs.map(({ name }) => name)).size).toBe(specs.length);
    expect(specs.map(variableOf).filter((name) => taken.includes(name!))).toEqual([]);
  }
});

test("the placeholder says what a value is, and a switch that is on is shown by the flag that turns it off", () => {
  const kinds = ["n", "port", "0..1", "a|b", "timeout:5ms|a", "file", "profiles.yaml", "names", "url[,url]", "address"];
  expect(kinds.map((value) => kindOf({ value }).kind)).toEqual(
    "count port number choice text path path list list text".split(" "),
  );
  const demo: OptionSpec = { name: "demo", value: undefined, text: "load them", default: "true" };
  expect([flagOf(demo), describe(demo)]).toEqual(["--no-demo", "don't load them"]);
  expect(describe(SPECS[1]!)).toBe("port (default: 8000)");
});
