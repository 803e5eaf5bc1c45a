import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { parseRoleOptions } from "../role/role-options.ts";
import { Announcer } from "./announcer.ts";
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
const root = mkdtempSync(join(tmpdir(), "tutti-up-"));
process.env["TUTTI_RUN_DIR"] = root;
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("every planned process has a command line that its role understands", () => {
  const options = parseUpOptions({ ...FLAGS, executors: "3", patience: "0.5", otlp: "http://127.0.0.1:4318" });
  const planned = planCluster(options, { url: "nats://127.0.0.1:1", credentials: { ranker: "/r" } });
  for (const { role, argv } of planned) expect(parseRoleOptions(role, argv, {}).nats).toEqual(["nats://127.0.0.1:1"]);
  expect(planned.filter(({ role }) => role === "ranker").map(({ argv }) => argv.includes("/r"))).toEqual([true, true]);
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

test("flags that make no sense are refused before anything starts", () => {
  const refused = (flags: Partial<UpFlags>) => expect(() => parseUpOptions({ ...FLAGS, ...flags }));
  refused({ executors: "0" }).toThrow(/--executors 0: a number from 1/);
  refused({ policy: "lazy" }).toThrow(/--policy lazy/);
  refused({ patience: "2" }).toThrow(/--patience 2/);
  refused({ provider: "tpu" }).toThrow(/--provider tpu/);
  refused({ port: "x" }).toThrow(/--port x/);
  refused({ port: "1", nats: "nats://a" }).toThrow(/--port is for a server that is started/);
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
