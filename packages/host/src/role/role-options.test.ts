import { expect, test } from "vitest";
import { parseGpus, parsePolicy } from "./option-values.ts";
import { parseRoleOptions } from "./role-options.ts";

test("a role started without flags joins the cluster main on this host's NATS server", () => {
  expect(parseRoleOptions("batcher", [], {})).toMatchObject({
    nats: ["nats://127.0.0.1:4222"],
    cluster: "main",
    policy: { kind: "adaptive" },
    gather: "target",
    latency: "hints",
    patience: undefined,
  });
});

test("servers and credentials come from the environment unless flags say otherwise", () => {
  const env = { TUTTI_NATS: "nats://a:1,nats://b:2", TUTTI_CREDS: "/c" };
  expect(parseRoleOptions("ranker", [], env)).toMatchObject({ nats: ["nats://a:1", "nats://b:2"], creds: "/c" });
  expect(parseRoleOptions("ranker", ["--nats", "nats://c:3"], env).nats).toEqual(["nats://c:3"]);
  const apart = parseRoleOptions("ingress", [], { ...env, TUTTI_ANSWERS_CREDS: "/a" });
  expect(apart).toMatchObject({ creds: "/c", answersCreds: "/a" });
});

test("accelerators are written as ids and ranges, each named once", () => {
  expect(parseGpus("0")).toEqual([0]);
  expect(parseGpus("4,0-2,1")).toEqual([0, 1, 2, 4]);
  for (const bad of ["", "a", "3-1", "-1", "0,", "65536"]) expect(() => parseGpus(bad)).toThrow(/--gpus/);
});

test("an executor's memory is a size, and unbounded unless it is said", () => {
  expect(parseRoleOptions("executor", ["--memory", "1.5GB"], {}).memory).toBe(1.5e9);
  expect(parseRoleOptions("executor", [], {}).memory).toBeUndefined();
});

test("accelerators have a name for their type where one is said, whose end can't be taken for a part", () => {
  const typeOf = (...args: string[]): string | undefined => parseRoleOptions("executor", args, {}).acceleratorType;
  expect([typeOf(), typeOf("--accelerator-type", "epyc-9654P")]).toEqual([undefined, "epyc-9654P"]);
  expect(parseRoleOptions("executor", [], { TUTTI_ACCELERATOR_TYPE: "old" }).acceleratorType).toBe("old");
  for (const bad of ["", "rack-2", "4090", "a b", "a.b", "-a", "a".repeat(65)])
    expect(() => typeOf(`--accelerator-type=${bad}`), bad).toThrow(`--accelerator-type ${bad}: a name`);
});

test("a policy with a waiting time carries it, and anything else is named with what is possible", () => {
  expect(parsePolicy("timeout:5ms")).toEqual({ kind: "timeout", wait: 5_000 });
  expect(parsePolicy("beta-lambda")).toEqual({ kind: "beta-lambda" });
  for (const bad of ["timeout", "timeout:soon", "lazy"])
    expect(() => parsePolicy(bad)).toThrow(/take adaptive, deferred, eager/);
});

test("a flag of another role is refused with the flags that this one has", () => {
  expect(() => parseRoleOptions("ranker", ["--gpus", "0"], {})).toThrow(/`tutti run ranker` takes:[^]*--cluster/);
});

test("values that make no sense are refused by the name of their flag", () => {
  expect(() => parseRoleOptions("batcher", ["--patience", "2"], {})).toThrow(/--patience 2/);
  expect(() => parseRoleOptions("executor", ["--provider", "tpu"], {})).toThrow(/cpu, webgpu, cuda/);
  expect(() => parseRoleOptions("executor", ["--memory", "much"], {})).toThrow(/--memory much: a size/);
  expect(() => parseRoleOptions("executor", ["--memory", "0"], {})).toThrow(/--memory 0: a size/);
  expect(() => parseRoleOptions("gateway", ["--http-port", "70000"], {})).toThrow(/--http-port/);
  expect(() => parseRoleOptions("gateway", ["--trace-query", "localhost:16686"], {})).toThrow(/--trace-query/);
  expect(() => parseRoleOptions("planner", ["--epoch", "1s"], {})).toThrow(/--epoch 1s/);
  expect(parseRoleOptions("planner", ["--budget-share", "0.3"], {}).budgetShare).toBe(0.3);
  expect(parseRoleOptions("planner", [], {}).budgetShare).toBe(0.1);
  for (const share of ["2", "", "half"])
    expect(() => parseRoleOptions("planner", ["--budget-share", share], {})).toThrow("--budget-share");
  expect(parseRoleOptions("executor", ["--part", "40", "--threads", "2"], {})).toMatchObject({ part: 40, threads: 2 });
  for (const flags of [
    ["--part", "0"],
    ["--part", "101"],
    ["--threads", "x"],
  ])
    expect(() => parseRoleOptions("executor", flags, {})).toThrow(flags[0]);
  expect(() => parseRoleOptions("ingress", ["--cluster", "a.b"], {})).toThrow(/--cluster a.b/);
});

test("probes are answered where the flag or the environment says, on loopback without an address", () => {
  const health = (argv: string[], env = {}) => parseRoleOptions("executor", argv, env).health;
  expect(health([])).toBeUndefined();
  expect(health(["--health", "8003"])).toEqual({ host: "127.0.0.1", port: 8003 });
  expect(health([], { TUTTI_HEALTH: "0.0.0.0:8003" })).toEqual({ host: "0.0.0.0", port: 8003 });
  expect(health(["--health", "[::]:0"])).toEqual({ host: "::", port: 0 });
  for (const bad of ["tutti", "a:b", "70000"]) expect(() => health(["--health", bad])).toThrow(/--health/);
});
