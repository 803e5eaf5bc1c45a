import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OCR_PIPELINE_FOLDER } from "@tutti/pipeline-ocr/folder";
import { afterEach, expect, test } from "vitest";
import { gpusIn } from "../parts/nvidia-gpus.ts";
import { parseRoleOptions } from "../role/role-options.ts";
import { Announcer } from "./announcer.ts";
import type { Reading } from "./status-board.ts";
import { planCluster } from "./cluster-plan.ts";
import { RunDirectory } from "./run-directory.ts";
import { type UpFlags, parseUpOptions } from "./up-options.ts";

const FLAGS: UpFlags = {
  gpus: "8",
  demo: true,
  policy: "deferred",
  gather: "target",
  provider: "cpu",
  dataPlane: "tcp",
  httpPort: "0",
  logLevel: "info",
};
const { gpus: _, ...BARE } = FLAGS;
const root = mkdtempSync(join(tmpdir(), "tutti-up-"));
process.env["TUTTI_RUN_DIR"] = root;
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("every planned process has a command line that its role understands", () => {
  const options = parseUpOptions({
    ...FLAGS,
    ...{ layout: "spread", executors: "3", patience: "0.5", otlp: "http://127.0.0.1:4318" },
  });
  const planned = planCluster(options, { url: "nats://127.0.0.1:1", credentials: { ranker: "/r", answers: "/a" } });
  for (const { roles, argv } of planned) expect(parseRoleOptions(roles, argv, {}).nats).toEqual(["nats://127.0.0.1:1"]);
  expect(planned.filter(({ role }) => role === "ranker").map(({ argv }) => argv.includes("/r"))).toEqual([true, true]);
  for (const { roles, argv } of planned)
    expect(parseRoleOptions(roles, argv, {}).answersCreds).toBe(roles.includes("ingress") ? "/a" : undefined);
  const executors = planned.filter(({ role }) => role === "executor");
  expect(executors.map(({ argv }) => parseRoleOptions("executor", argv, {}).gpus)).toEqual([[0], [1], [2]]);
});

test("each role runs as often as is asked for, and emulated executors join the real ones", () => {
  const flags = { ingresses: "2", batchers: "2", rankers: "3", executors: "1", emulatedExecutors: "3" };
  const planned = planCluster(parseUpOptions({ ...FLAGS, ...flags }), { url: "nats://a:1", credentials: {} });
  const names = (role: string): string[] => planned.filter((one) => one.role === role).map(({ name }) => name);
  expect(names("ingress")).toEqual(["ingress-0", "ingress-1"]);
  expect(names("batcher")).toEqual(["batcher-0", "batcher-1"]);
  expect(names("ranker")).toEqual(["ranker-0", "ranker-1", "ranker-2"]);
  const executors = planned.filter(({ role }) => role === "executor");
  const parsed = executors.map(({ argv }) => parseRoleOptions("executor", argv, {}));
  expect(parsed.map(({ engine, gpus }) => [engine, gpus])).toEqual([
    ["onnx", [0]],
    ["emulated", [1]],
    ["emulated", [2]],
    ["emulated", [3]],
  ]);
});

test("an executor on CUDA has a GPU of its own, and there are as many as GPUs unless fewer are asked for", () => {
  const planned = (flags: Partial<UpFlags>): (number | string)[] =>
    planCluster(
      parseUpOptions({ ...FLAGS, provider: "cuda", ...flags }, () => 3),
      { url: "nats://a:1", credentials: {} },
    )
      .filter(({ role }) => role === "executor")
      .map(({ argv }) => parseRoleOptions("executor", argv, {}))
      .map(({ engine, device }) => (engine === "onnx" ? device : engine));
  expect(planned({})).toEqual([0, 1, 2]);
  expect(planned({ executors: "1", emulatedExecutors: "1" })).toEqual([0, "emulated"]);
  expect(() => planned({ executors: "4" })).toThrow(/there are 3; .*tutti split/);
  expect(parseUpOptions({ ...FLAGS, provider: "cuda" }, () => 0).executors).toBe(1); // which then says what is missing
  expect(parseUpOptions({ ...FLAGS, provider: "webgpu" }, () => 3).executors).toBe(1);
  const listed =
    "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 3g.20gb     Device  0: (UUID: MIG-b)\nGPU 1: NVIDIA A100 (UUID: GPU-c)\n";
  expect(gpusIn(listed)).toBe(2);
});

test("the name that is given to this machine's accelerators reaches every executor, and is checked before", () => {
  const typesOf = (flags: Partial<UpFlags>): (string | undefined)[] =>
    planCluster(parseUpOptions({ ...FLAGS, executors: "1", emulatedExecutors: "1", ...flags }), {
      ...{ url: "nats://a:1", credentials: {} },
    })
      .filter(({ role }) => role === "executor")
      .map(({ argv }) => parseRoleOptions("executor", argv, {}).acceleratorType);
  expect([typesOf({}), typesOf({ acceleratorType: "old" })]).toEqual([
    [undefined, undefined],
    ["old", "old"],
  ]);
  expect(() => typesOf({ acceleratorType: "rack-2" })).toThrow("--accelerator-type rack-2");
});

test("by default a node hosts every role but the executor's, and each further one takes ports that are free", () => {
  const options = parseUpOptions({ ...FLAGS, nodes: "2", executors: "1", httpPort: "8100", patience: "0.5" });
  const planned = planCluster(options, { url: "nats://a:1", credentials: { node: "/n", answers: "/a" } });
  expect(planned.map(({ name, roles }) => [name, roles.length])).toEqual([
    ["node-0", 7],
    ["node-1", 7],
    ["executor-0", 1],
  ]);
  const nodes = planned.slice(0, 2).map(({ roles, argv }) => parseRoleOptions(roles, argv, {}));
  expect(nodes.map(({ httpPort, creds, answersCreds, patience }) => [httpPort, creds, answersCreds, patience])).toEqual(
    [
      [8_100, "/n", "/a", 0.5],
      [0, "/n", "/a", 0.5],
    ],
  );
  const layouts = [
    { flags: { rankers: "1" }, layout: "spread" },
    { flags: {}, layout: "node" },
  ];
  for (const { flags, layout } of layouts) expect(parseUpOptions({ ...FLAGS, ...flags }).layout).toBe(layout);
  for (const bad of [{ layout: "node", batchers: "2" }, { layout: "spread", nodes: "2" }, { layout: "star" }])
    expect(() => parseUpOptions({ ...FLAGS, ...bad })).toThrow(/--(layout|nodes|batchers)/);
});

test("each sub-cluster has a leader and its spares, each executor its memory; emulated accelerators have a process for each sub-cluster at least", () => {
  const flags = { layout: "spread", subClusters: "3", subClustersMin: "2", memory: "4GB", emulate: "profiles.yaml" };
  const planned = planCluster(parseUpOptions({ ...FLAGS, ...flags }), { url: "nats://a:1", credentials: {} });
  const rankers = planned.filter(({ role }) => role === "ranker");
  const places = rankers.map(({ name, argv }) => [name, parseRoleOptions("ranker", argv, {}).subCluster]);
  expect(places).toEqual([
    ["ranker-0", "main"],
    ["ranker-1", "main"],
    ["ranker-s1-0", "s1"],
    ["ranker-s1-1", "s1"],
    ["ranker-s2-0", "s2"],
    ["ranker-s2-1", "s2"],
  ]);
  const executors = planned.filter(({ role }) => role === "executor");
  const parsed = executors.map(({ argv }) => parseRoleOptions("executor", argv, {}));
  expect(parsed.map(({ gpus, memory }) => [gpus.length, memory])).toEqual([
    [2, 4e9],
    [3, 4e9],
    [3, 4e9],
  ]);
  const planner = planned.find(({ role }) => role === "planner")!;
  expect(parseRoleOptions("planner", planner.argv, {}).subClustersMin).toBe(2);
  for (const bad of [{ subClusters: "0" }, { subClusters: "2", subClustersMin: "3" }, { memory: "lots" }])
    expect(() => parseUpOptions({ ...FLAGS, ...bad })).toThrow();
});

test("every ingress serves the demo's pipeline where its models are, unless another folder is named", () => {
  const foldersOf = (more: Partial<UpFlags>): (string | undefined)[] => {
    const options = parseUpOptions({ ...FLAGS, ingresses: "2", ...more });
    const planned = planCluster(options, { url: "nats://a:1", credentials: {} });
    const ingresses = planned.filter(({ role }) => role === "ingress");
    return ingresses.map(({ argv }) => parseRoleOptions("ingress", argv, {}).pipelines);
  };
  expect(foldersOf({})).toEqual([OCR_PIPELINE_FOLDER, OCR_PIPELINE_FOLDER]);
  expect(foldersOf({ pipelines: "/etc/tutti" })).toEqual(["/etc/tutti", "/etc/tutti"]);
  for (const none of [{ demo: false }, { emulate: "profiles.yaml" }])
    expect(foldersOf(none)).toEqual([undefined, undefined]);
});

test("emulated accelerators share one process, and no demo model needs them", () => {
  const options = parseUpOptions({ ...FLAGS, emulate: "profiles.yaml", gpus: "8" });
  expect(options.demo).toBe(false);
  const executors = planCluster(options, {
    url: "nats://a:1",
    credentials: {},
    jitter: { seed: 7, spread: 0.05 },
  }).filter(({ role }) => role === "executor");
  expect(executors.map(({ argv }) => parseRoleOptions("executor", argv, {}))).toMatchObject([
    { engine: "emulated", gpus: [0, 1, 2, 3, 4, 5, 6, 7], jitter: { seed: 7, spread: 0.05 } },
  ]);
});

test("emulated accelerators are spread over as many processes as are asked for", () => {
  const options = parseUpOptions({ ...FLAGS, emulate: "profiles.yaml", gpus: "8", executors: "3" });
  const executors = planCluster(options, { url: "nats://a:1", credentials: {} }).filter(
    ({ role }) => role === "executor",
  );
  const gpus = executors.map(({ argv }) => parseRoleOptions("executor", argv, {}).gpus);
  expect(gpus).toEqual([
    [0, 1],
    [2, 3, 4],
    [5, 6, 7],
  ]);
});

test("with --autoscale the executors beyond the lower bound are spares, one emulated accelerator each", () => {
  const options = parseUpOptions({ ...BARE, emulate: "profiles.yaml", autoscale: "1:3", epoch: "6s" });
  const planned = planCluster(options, { url: "nats://a:1", credentials: {} });
  const executors = planned.filter(({ role }) => role === "executor");
  expect(executors.map(({ argv, isSpare }) => [parseRoleOptions("executor", argv, {}).gpus, isSpare === true])).toEqual(
    [
      [[0], false],
      [[1], true],
      [[2], true],
    ],
  );
  const node = planned.find(({ role }) => role === "node")!;
  expect(parseRoleOptions(node.roles, node.argv, {}).epoch).toBe(6_000_000);
});

test("executors with cores of their own are bound to them and can be split; others say why they can't", () => {
  const executorsOf = (flags: Partial<UpFlags>) =>
    planCluster(parseUpOptions({ ...FLAGS, ...flags }), {
      ...{ url: "nats://a:1", credentials: {}, hasTaskset: true },
    }).filter(({ role }) => role === "executor");
  const [own] = executorsOf({ cores: "1", executors: "1", memory: "1GB" });
  expect(own).toMatchObject({ prefix: ["taskset", "-c", "0"], gpus: 1 });
  expect(own?.splittable).toMatchObject({ gpu: 0, machine: { provider: "cpu", cores: [0] }, memory: 1e9 });
  expect(parseRoleOptions("executor", own!.argv, {}).threads).toBe(1);
  expect(executorsOf({ executors: "1" })[0]).toMatchObject({
    unsplittable: expect.stringContaining("--cores") as string,
  });
  expect(executorsOf({ executors: "1" })[0]?.prefix).toBeUndefined();
  const cuda = executorsOf({ executors: "2", provider: "cuda" });
  expect(cuda.map(({ splittable }) => splittable?.machine.provider)).toEqual(["cuda", "cuda"]);
  const [many] = executorsOf({ emulate: "profiles.yaml", gpus: "4", executors: "1" });
  expect(many).toMatchObject({ gpus: 4, unsplittable: expect.stringContaining("--executors") as string });
  const scaled = executorsOf({ emulate: "profiles.yaml", gpus: "2", autoscale: "1:2" });
  expect(scaled[0]?.unsplittable).toContain("--autoscale");
});

test("an application that would be called like a part of Tutti is refused by name", () => {
  expect(() => parseUpOptions({ ...FLAGS, apps: "shop,cli" })).toThrow('--apps: "cli" is reserved for Tutti itself');
  expect(() => parseUpOptions({ ...FLAGS, apps: "shop,a.b" })).toThrow('--apps: "a.b" is no name of an application');
});

test("answers go to an application's own inbox wherever anybody has credentials, and anywhere without", () => {
  const scopes = (flags: Partial<UpFlags>): string[] =>
    planCluster(parseUpOptions({ ...FLAGS, ...flags }), { url: "nats://a:1", credentials: {} })
      .filter(({ roles }) => roles.includes("ingress") || roles.includes("jobs"))
      .map(({ roles, argv }) => parseRoleOptions(roles, argv, {}).replyScope);
  const existing = { nats: "nats://a:1" };
  expect(scopes({ ...existing, creds: "tutti-auth/creds" })).toEqual(["app"]);
  expect(scopes({ ...existing, creds: "creds.nk", layout: "spread", ingresses: "2" })).toEqual(["app", "app", "app"]);
  expect(scopes({ apps: "shop" })).toEqual(["app"]);
  expect([scopes({}), scopes(existing)]).toEqual([["any"], ["any"]]);
});

test("gateways get what says who may ask, and one that would ask nobody for a key beyond loopback is refused", () => {
  const accessOf = (flags: Partial<UpFlags>) =>
    planCluster(parseUpOptions({ ...FLAGS, nodes: "2", ...flags }), { url: "nats://a:1", credentials: {} })
      .filter(({ roles }) => roles.includes("gateway"))
      .map(({ roles, argv }) => parseRoleOptions(roles, argv, {}))
      .map(({ httpHost, apiKeys, jwt, httpTls }) => ({ httpHost, apiKeys, jwt: jwt?.jwks, cert: httpTls?.cert }));
  const tls = { httpTlsCert: "c.pem", httpTlsKey: "k.pem" };
  const all = { httpHost: "0.0.0.0", apiKeys: "keys.json", jwks: "https://id.example/jwks", ...tls };
  const expected = { httpHost: "0.0.0.0", apiKeys: "keys.json", jwt: "https://id.example/jwks", cert: "c.pem" };
  expect(accessOf(all)).toEqual([expected, expected]);
  expect(accessOf({ httpHost: "0.0.0.0", insecureNoAuth: true })).toMatchObject([{ httpHost: "0.0.0.0" }, {}]);
  for (const host of ["0.0.0.0", "::", "10.0.0.7", "gateway.example", "127.0.0.1.evil.example"])
    expect(() => parseUpOptions({ ...FLAGS, httpHost: host }), host).toThrow(/tutti auth key add/);
  for (const host of ["127.0.0.1", "127.0.0.2", "localhost", "::1"]) parseUpOptions({ ...FLAGS, httpHost: host });
  for (const bad of [{ httpTlsCert: "c.pem" }, { jwtIssuer: "x" }])
    expect(() => parseUpOptions({ ...FLAGS, ...bad })).toThrow(/--(http-tls-cert|jwt-issuer)/);
});

test("gateways may be told to take tensors in shared memory, on loopback only", () => {
  const sharedOf = (flags: Partial<UpFlags>) =>
    planCluster(parseUpOptions({ ...FLAGS, ...flags }), { url: "nats://a:1", credentials: {} })
      .filter(({ roles }) => roles.includes("gateway"))
      .map(({ roles, argv }) => parseRoleOptions(roles, argv, {}).systemSharedMemory);
  expect([sharedOf({}), sharedOf({ systemSharedMemory: true })]).toEqual([[false], [true]]);
  const beyond = { ...FLAGS, httpHost: "0.0.0.0", insecureNoAuth: true, systemSharedMemory: true };
  expect(() => parseUpOptions(beyond)).toThrow("--system-shared-memory with --http-host 0.0.0.0");
});

test("flags that make no sense are refused before anything starts", () => {
  const refused = (flags: Partial<UpFlags>) => expect(() => parseUpOptions({ ...FLAGS, ...flags }));
  refused({ executors: "0" }).toThrow(/--executors 0: a number from 1/);
  refused({ policy: "lazy" }).toThrow(/--policy lazy/);
  refused({ latency: "none" }).toThrow(/--latency none/);
  refused({ patience: "2" }).toThrow(/--patience 2/);
  refused({ provider: "tpu" }).toThrow(/--provider tpu/);
  refused({ port: "x" }).toThrow(/--port x/);
  refused({ port: "1", nats: "nats://a" }).toThrow(/--port is for a server that is started/);
  refused({ autoscale: "4:1" }).toThrow(/--autoscale 4:1: executors at least and at most/);
  refused({ autoscale: "1:4", executors: "2" }).toThrow(/without --executors/);
  refused({ autoscale: "1:3", gpus: "8" }).toThrow(/--gpus 8: with --autoscale 1:3 a multiple of 3/);
  refused({ cores: "0" }).toThrow(/--cores 0/);
  refused({ cores: "1", provider: "cuda" }).toThrow(/--cores is for executors on a CPU/);
  refused({ cores: "1", executors: "200" }).toThrow(/200 executors would need 200 cores/);
  refused({ budgetShare: "2" }).toThrow(/--budget-share 2/);
  refused({ epoch: "1s" }).toThrow(/--epoch 1s/);
  for (const modelsPoll of ["0.5s", "1000h", "Infinity"])
    refused({ models: "m", modelsPoll }).toThrow(`--models-poll ${modelsPoll}: a duration from 1 s to 24 h`);
  refused({ creds: "c" }).toThrow(/--creds goes with --nats/);
});

test("only its owner can read what a run keeps, and an earlier run on the port leaves nothing", () => {
  const first = new RunDirectory("4222");
  first.writeState({ url: "nats://127.0.0.1:4222", cluster: "main", pid: 1, startedAt: "" });
  const log = first.openLog("ingress");
  log.write("a line");
  log.close();
  expect(readFileSync(join(root, "4222/logs/ingress.log"), "utf8")).toBe("a line\n");
  expect(statSync(join(root, "4222")).mode & 0o77).toBe(0);
  expect(statSync(join(root, "4222/state.json")).mode & 0o77).toBe(0);
  const second = new RunDirectory("4222");
  expect(existsSync(join(second.path, "state.json"))).toBe(false);
});

test("of a child's lines, warnings and stacks reach the terminal, and a flood of them is counted", () => {
  const lines: string[] = [];
  const announcer = new Announcer({ json: false, write: (line) => lines.push(line) });
  announcer.childLine("ingress", '{"level":"info","msg":"ready"}');
  announcer.childLine("ingress", '{"level":"warn","time":"2026","actor":"x","msg":"slow","ms":7}');
  announcer.childLine("ingress", "Error: broken");
  expect(lines).toEqual(["ingress | slow ms=7", "ingress | Error: broken"]);
  for (let i = 0; i < 100; i++) announcer.childLine("ingress", "again");
  expect(lines).toHaveLength(20);
  announcer.stopping();
  announcer.childLine("ingress", "Error: my peer is gone");
  expect(lines.at(-1)).toBe("Stopping.");
});

test("a child's line shows control characters, and can't look like another child's", () => {
  const lines: string[] = [];
  const announcer = new Announcer({ json: false, write: (line) => lines.push(line) });
  announcer.childLine("ingress", JSON.stringify({ level: "warn", msg: "no \u001b[2J\nranker-0 | gone", id: "\u0007" }));
  announcer.childLine("ingress", "Error: \u009b2J\r");
  expect(lines).toEqual(["ingress | no \\u001b[2J\\nranker-0 | gone id=\\u0007", "ingress | Error: \\u009b2J\\u000d"]);
});

/** Text of a terminal's lines after what was put: CR and "erase line" are understood. */
function screenOf(texts: readonly string[]): string[] {
  const lines = [""];
  for (const part of texts.join("").split(/(\n|\r\u001b\[2K)/)) {
    if (part === "\n") lines.push("");
    else if (part === "\r\u001b[2K") lines[lines.length - 1] = "";
    else lines[lines.length - 1] += part;
  }
  return lines;
}

const reading: Reading = {
  ...{ seconds: 1, requests: 1, inTime: 1, late: 0, refused: 0, reasons: {}, meanLatencyUs: 0 },
  ...{ batches: 0, items: 0, gpus: [], threads: [] },
};

test("a warning that a child repeats is shown once in half a minute, and then how often it came", () => {
  const lines: string[] = [];
  let now = 0;
  const announcer = new Announcer({ json: false, write: (line) => lines.push(line), now: () => now });
  const late = (batch: number): string => JSON.stringify({ level: "warn", msg: "late", batch });
  for (let i = 0; i < 100; i++) announcer.childLine("executor-0", late(i));
  announcer.childLine("executor-1", late(7));
  announcer.childLine("executor-0", '{"level":"warn","msg":"late","model":"mlp1"}');
  announcer.childLine("executor-0", '{"level":"warn","msg":"late","model":"mlp2"}');
  for (let i = 0; i < 2; i++) announcer.childLine("executor-0", '{"level":"error","msg":"broken"}');
  expect(lines.splice(2)).toEqual([
    ...["executor-0 | late model=mlp1", "executor-0 | late model=mlp2"],
    ...["executor-0 | broken", "executor-0 | broken"],
  ]);
  expect(lines).toEqual(["executor-0 | late batch=0", "executor-1 | late batch=7"]);
  now = 29_999;
  announcer.status(reading);
  now = 30_000;
  announcer.status(reading);
  const shown = lines.splice(0).filter((line) => line.includes("late"));
  expect(shown.slice(2)).toEqual(["executor-0 | late batch=0 (99 more like it in 30 s)"]);
  announcer.childLine("executor-0", late(101));
  expect(lines).toEqual(["executor-0 | late batch=101"]);
});

test("on a terminal the status is one last line that changes, and other lines stand above it", () => {
  const texts: string[] = [];
  const put = (text: string): void => void texts.push(text);
  const terminal = { columns: () => 30, put };
  const announcer = new Announcer({ json: false, write: (line) => put(`${line}\n`), terminal });
  announcer.say("started", "Started.");
  announcer.status(reading);
  announcer.status({ ...reading, requests: 2, inTime: 2 });
  expect(screenOf(texts)).toEqual(["Started.", "     2 requests · 2 in time ·"]);
  announcer.childLine("ingress", "Error: broken");
  announcer.status({ ...reading, requests: 3, inTime: 3 });
  expect(screenOf(texts)).toEqual(["Started.", "ingress | Error: broken", "     3 requests · 3 in time ·"]);
  announcer.stopping();
  expect(screenOf(texts)).toEqual(["Started.", "ingress | Error: broken", "Stopping.", ""]);
});

test("in a file the status is a line where there is news, and says how many warnings were left out till then", () => {
  const lines: string[] = [];
  const announcer = new Announcer({ json: false, write: (line) => lines.push(line) });
  for (let second = 0; second < 30; second++) announcer.status(reading);
  expect(lines.splice(0)).toHaveLength(1);
  for (let i = 0; i < 25; i++) announcer.childLine("ingress", "Error: broken");
  expect(lines.splice(0)).toHaveLength(20);
  announcer.status(reading);
  expect(lines).toEqual([]);
  announcer.status({ ...reading, late: 1 });
  expect(lines).toEqual([expect.stringMatching(/^ +31 requests in 31 s · .+ \(5 warnings more in the logs\)$/)]);
  lines.length = 0;
  for (let second = 0; second < 7; second++) announcer.status(reading);
  announcer.stopping();
  expect(lines).toEqual([expect.stringMatching(/^ +7 requests in 7 s · /), "Stopping."]);
  const events: string[] = [];
  const forPrograms = new Announcer({ json: true, write: (line) => events.push(line) });
  for (let second = 0; second < 3; second++) forPrograms.status(reading);
  expect(events).toHaveLength(3);
});

test("a Jaeger beside the system goes not with traces for another", () => {
  expect(() => parseUpOptions({ ...FLAGS, jaeger: true, otlp: "http://127.0.0.1:4318" })).toThrow("one of them");
  expect(parseUpOptions({ ...FLAGS, jaeger: true }).jaeger).toBe(true);
});
