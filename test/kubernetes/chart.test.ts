/** The Helm chart on a real Kubernetes, under load: docs/architecture.md, T1, T2 and T9. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { CHART, ROOT, type Values } from "../chart/helm.ts";
import { WIDTH, echoModelBytes } from "../e2e/chaos/models.ts";
import type { Strike } from "../e2e/chaos/record.ts";
import { Asker, NO_CLUSTER, Namespace, SMALL, provideImages } from "./cluster.ts";

const MINUTE = 60_000;

beforeAll(async () => {
  if (NO_CLUSTER !== undefined) return;
  await provideImages();
}, 10 * MINUTE);
beforeEach((context) => {
  if (NO_CLUSTER !== undefined) context.skip(NO_CLUSTER);
});

test(
  "a release is installed, scaled, upgraded, struck and removed under load, and no request is lost, doubled or answered wrongly",
  async () => {
    const ours = await Namespace.create();
    const values = { ...SMALL, auth: { insecure: true }, nats: { ...SMALL.nats, replicas: 3 } };
    await ours.helm("install", "tutti", values);
    const addresses = {
      nats: [0, 1, 2].map((i) => `nats://tutti-nats-${i}.tutti-nats:4222`).join(","),
      gateway: "http://tutti:8000",
    };
    const load = await Asker.start(ours, addresses);
    await load.tell({ op: "load-models" });
    await load.tell({ op: "start" });
    await load.tell({ op: "good", ms: 1_000 });

    for (const [name, role, signal, strike] of stepsOf(ours)) {
      const startedMs = performance.now();
      await load.tell({ op: "strike", name, role, signal });
      await strike();
      await load.tell({ op: "back" });
      await load.tell({ op: "good", ms: 1_000 });
      console.log(`${name}: ${Math.round(performance.now() - startedMs)} ms`);
    }
    // The load ends first: the name of a service that is gone can't be looked up.
    const { sent, failures, text } = await load.tell({ op: "end" });
    await ours.uninstall("tutti");
    console.log(text);
    expect(sent).toBeGreaterThan(500);
    expect(failures, text).toEqual([]);
    await load.stop();
    await ours.gone("tutti");
    const kinds = "all,configmap,poddisruptionbudget,networkpolicy";
    expect(await ours.kubectl("get", kinds, "--selector", "app.kubernetes.io/instance=tutti", "-o", "name")).toBe("");
  },
  20 * MINUTE,
);

test(
  "with credentials and TLS, the README's and the chart's own commands work as printed, and models outlive a NATS pod and the release",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "tutti-chart-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const ours = await Namespace.create();
    const key = await makeSecret(folder, ours.name);
    const auth = { secret: "tutti-auth", tls: true, apiKeys: true };
    const values = { ...SMALL, auth };
    const stopForwarding = await runPrinted(await ours.helm("install", "tutti", values), folder);
    await writeFile(join(folder, "echo.onnx"), echoModelBytes(WIDTH));
    const access = "--nats nats://127.0.0.1:4222 --creds tutti-auth/creds/admin.nk --tls-ca tutti-auth/tls/ca.pem";
    await shell(`tutti load echo.onnx --slo 2s ${access}`, folder);
    expect(await ask()).toBe(401);
    expect(await ask(key)).toBe(200);

    await ours.kubectl("delete", "pod", "tutti-nats-0", "--wait");
    await ours.settled("tutti-nats");
    await expect.poll(() => ask(key), PATIENT).toBe(200);

    await stopForwarding();
    await ours.uninstall("tutti");
    await ours.gone("tutti");
    await runPrinted(await ours.helm("install", "tutti", values), folder);
    await expect.poll(() => ask(key), PATIENT).toBe(200);
    await ours.uninstall("tutti");
  },
  20 * MINUTE,
);

type Step = readonly [name: string, role: Strike["role"], signal: Strike["signal"], strike: () => Promise<unknown>];

/** Each step ends when all pods are ready again. An upgrade has three executors, so that two serve at any time. */
function stepsOf(on: Namespace): readonly Step[] {
  const upgrade = (values: Values) => on.helm("upgrade", "tutti", values, "--reset-then-reuse-values");
  const restart = async (set: string, ordinal: number, ...args: string[]): Promise<void> => {
    await on.kubectl("delete", "pod", `${set}-${ordinal}`, "--wait", ...args);
    await on.settled(set);
  };
  const evictNode = async (): Promise<void> => {
    await on.evict("tutti-node-0");
    await expect(on.evict("tutti-node-1")).rejects.toThrow("disruption budget");
    await on.kubectl("wait", "--for=delete", "pod/tutti-node-0", "--timeout=60s");
    await on.settled("tutti-node");
  };
  const kill = ["--grace-period=0", "--force"];
  return [
    ["executors: 1 to 3", "executor", "SIGTERM", () => upgrade({ executor: { replicas: 3 } })],
    ["delete an executor's pod", "executor", "SIGTERM", () => restart("tutti-executor", 0)],
    ["kill an executor's pod", "executor", "SIGKILL", () => restart("tutti-executor", 1, ...kill)],
    ["evict a node's pod", "node", "SIGTERM", evictNode],
    ["delete the other node's pod", "node", "SIGTERM", () => restart("tutti-node", 1)],
    ["upgrade with another option", "node", "SIGTERM", () => upgrade({ config: { policy: "adaptive" } })],
    ["delete a NATS server's pod", "nats", "SIGTERM", () => restart("tutti-nats", 0)],
    ["executors: 3 to 1", "executor", "SIGTERM", () => upgrade({ executor: { replicas: 1 } })],
  ];
}

const PATIENT = { timeout: 2 * MINUTE, interval: 500 };
const INPUT = Array.from({ length: WIDTH }, (_, i) => i);

/** Asks through the forwarded port, with a key or without. @returns the status; 0 where nobody answers */
async function ask(key?: string): Promise<number> {
  const response = await fetch("http://127.0.0.1:8000/v2/models/echo/infer", {
    method: "POST",
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    body: JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDTH], data: INPUT }] }),
  }).catch(() => undefined);
  if (response?.status === 200) {
    const { outputs } = (await response.json()) as { outputs: readonly { data: readonly number[] }[] };
    expect(outputs[0]!.data).toEqual(INPUT);
  }
  return response?.status ?? 0;
}

/** Makes the secret as the chart's README says. @returns the key for HTTP */
async function makeSecret(folder: string, namespace: string): Promise<string> {
  const readme = await readFile(join(CHART, "README.md"), "utf8");
  const block = /tutti auth init[^]*?(?=helm install)/.exec(readme)![0];
  const text = await shell(
    block.replaceAll("kubectl -n ai", `kubectl -n ${namespace}`).replaceAll(".ai", `.${namespace}`),
    folder,
  );
  return /^tutti_\S+/m.exec(text)![0];
}

/** Runs the commands that the chart prints after an install. @returns what ends the forwarding of ports */
async function runPrinted(notes: string, folder: string): Promise<() => Promise<void>> {
  const commands = [...notes.matchAll(/^ {2}(\S.*)$/gm)].map(([, command]) => command!);
  expect(commands.length).toBeGreaterThan(0);
  const forwards: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    for (const child of forwards.splice(0)) {
      const closed = once(child, "close");
      child.kill();
      await closed;
    }
  };
  onTestFinished(stop);
  for (const command of commands) {
    if (command.includes("port-forward")) forwards.push(await forward(command));
    else await shell(command, folder);
  }
  return stop;
}

/** Starts the command. It has ended by itself where this rejects. */
async function forward(command: string): Promise<ChildProcess> {
  const child = spawn("sh", ["-c", `exec ${command}`], { stdio: ["ignore", "pipe", "inherit"] });
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  expect(first.value).toContain("Forwarding from");
  child.stdout.resume();
  return child;
}

/** @returns what the commands print */
async function shell(commands: string, cwd: string): Promise<string> {
  const main = join(ROOT, "packages/cli/src/main.ts");
  const text = `set -e; tutti() { "${process.execPath}" "${main}" "$@"; }\n${commands}`;
  return (await promisify(execFile)("sh", ["-c", text], { cwd, encoding: "utf8" })).stdout;
}
