/** The systems that are compared: each is started, answers on a port, and is stopped. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./free-port.ts";
import type { LoadKind } from "./load-plan.ts";
import { type PeerName, environmentOf } from "./peer-environments.ts";
import { answersWithin, type Way } from "./probe.ts";
import { ProcessGroup } from "./process-group.ts";
import { type Asked, type RequestForm, loadKind } from "./requests.ts";
import type { Turns } from "./results.ts";
import { schedulingTurns } from "./scheduling-turns.ts";
import type { ServedModel } from "./served-models.ts";
import type { ServerSettings } from "./server-settings.ts";
import type { Setting, SystemName, Workload } from "./workloads.ts";

export interface Contestant extends Way {
  readonly name: SystemName;
  readonly setting: Setting;
  readonly kinds: readonly LoadKind[];
  readonly processes: ProcessGroup;
  /** Turns of the event loop that schedules, of the last minute; undefined: it has no scheduler. */
  turns(): Promise<Turns | undefined>;
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly workload: Workload;
  readonly asked: readonly Asked[];
  readonly setting: Setting;
  /** Folder for files of the systems; the caller removes it. */
  readonly folder: string;
  /** Further flags of `tutti up`. */
  readonly tuttiFlags: readonly string[];
  readonly say: (text: string) => void;
}

const ROOT = join(import.meta.dirname, "../../..");
const READY_MS = 120_000;
/**
 * Time for a server to stop. PyTriton needs five seconds to end in order; a killed one leaves its shared memory behind.
 */
const STOP_MS = 15_000;

/** Starts one server for all forms of a system. @returns why it could not be started, as text */
export async function start(names: readonly SystemName[], options: StartOptions): Promise<Contestant[] | string> {
  const family = familyOf(names[0]!);
  const server = family === "tutti" ? await launchTutti(options) : await launchServer(family, options);
  if (typeof server === "string") return server;
  const contestants = names.map((name): Contestant => {
    const transport = name === "tutti-nats" ? "nats" : "http";
    const kinds = options.asked.map((one) =>
      loadKind(one, formOf(name, options.workload), pathOf(family, one.model.name)),
    );
    const { processes, stop, ports } = server;
    const turns = (): Promise<Turns | undefined> => schedulingTurns(ports.metrics);
    return { name, setting: options.setting, transport, port: ports[transport], kinds, processes, turns, stop };
  });
  for (const one of contestants) {
    const isReady = await answersWithin(one, one.kinds, {
      ...{ withinMs: Infinity, times: 1, msMax: READY_MS },
      isOver: () => server.child.exitCode !== null,
    });
    if (isReady) continue;
    await server.stop();
    return `it gives no right answer: ${lastLine(server.log)}`;
  }
  return contestants;
}

type Family = "bare" | "tutti" | PeerName;

export function familyOf(name: SystemName): Family {
  return name === "tutti-binary" || name === "tutti-nats" ? "tutti" : name;
}

/** Binary workloads are asked in each system's own binary form. */
export function formOf(name: SystemName, { isBinary }: Pick<Workload, "isBinary">): RequestForm {
  switch (name) {
    case "tutti-nats":
      return "tensors";
    case "tutti-binary":
      return "oip-binary";
    case "bare":
    case "tutti":
    case "pytriton":
      return isBinary ? "oip-binary" : "oip-json";
    case "bentoml":
      return "rows";
    case "mosec":
    case "litserve":
    case "ray":
      return isBinary ? "raw" : "oip-json";
  }
}

function pathOf(family: Family, model: string): string {
  return family === "bentoml" ? `/${model}` : `/v2/models/${model}/infer`;
}

interface Server {
  readonly child: ChildProcess;
  /** 0: it has none. */
  readonly ports: Readonly<Record<"http" | "nats" | "metrics", number>>;
  readonly processes: ProcessGroup;
  readonly log: string;
  stop(): Promise<void>;
}

async function launchServer(family: Exclude<Family, "tutti">, options: StartOptions): Promise<Server | string> {
  const { workload, asked, setting, say } = options;
  const environment = family === "bare" ? { python: "" } : await environmentOf(family, say);
  if ("problem" in environment) return environment.problem;
  const port = await freePort();
  const workspace = mkdtempSync(join(options.folder, `${family}-`)); // Ports come again.
  const settings: ServerSettings = {
    ...{ port, models: asked.map(({ model }) => model), executors: workload.executors, workspace },
    ...{ batchMax: setting.batchMax, waitMs: setting.waitMs, isBinary: workload.isBinary },
    latencyMaxMs: setting.latencyMaxSlos * workload.sloMs,
  };
  const env = {
    ...process.env,
    PEERS_SETTINGS: JSON.stringify(settings),
    ...{ PYTHONDONTWRITEBYTECODE: "1", BENTOML_HOME: workspace, BENTOML_DO_NOT_TRACK: "True" },
    ...{ RAY_USAGE_STATS_ENABLED: "0", RAY_TMPDIR: workspace, TMPDIR: workspace },
  };
  const ports = { http: port, nats: 0, metrics: 0 };
  if (family === "bare")
    return launched(process.execPath, ["bare-server.ts"], { env, cwd: import.meta.dirname, ports, workspace });
  const cwd = join(import.meta.dirname, "python");
  return launched(environment.python, [`${family}_server.py`], { env, cwd, ports, workspace });
}

async function launchTutti({ workload, asked, folder, tuttiFlags }: StartOptions): Promise<Server> {
  const [http, nats, metrics] = [await freePort(), await freePort(), await freePort()];
  const workspace = mkdtempSync(join(folder, "tutti-"));
  const ports = ["--port", nats, "--http-port", http, "--grpc-port", 0, "--metrics-port", metrics].map(String);
  const models = workload.measure === "idle" ? [] : modelFlags(workload, asked, workspace);
  const main = join(ROOT, "packages/cli/src/main.ts");
  const args = [main, "up", "--json", ...ports, ...models, ...tuttiFlags];
  const env = process.env;
  const server = launched(process.execPath, args, { env, cwd: ROOT, ports: { http, nats, metrics }, workspace });
  await hasSaid(server, "ready");
  return server;
}

function modelFlags(workload: Workload, asked: readonly Asked[], workspace: string): string[] {
  const models = asked.map(({ model }) => model);
  if (models.some(({ file }) => file === undefined)) {
    const profiles = join(workspace, "profiles.yaml");
    writeFileSync(profiles, emulatedProfiles(models));
    return ["--no-demo", "--emulate", profiles, "--gpus", String(workload.executors)];
  }
  for (const { name, file, batchMax, sloMs } of models) {
    const folder = join(workspace, "models", name);
    mkdirSync(join(folder, "1"), { recursive: true });
    writeFileSync(join(folder, "1/model.onnx"), readFileSync(file!));
    writeFileSync(join(folder, "config.yaml"), `slo: ${sloMs}ms\nmax_batch_size: ${batchMax}\n`);
  }
  return ["--no-demo", "--models", join(workspace, "models"), "--executors", String(workload.executors)];
}

/** Profiles for `--emulate`: JSON is YAML. */
function emulatedProfiles(models: readonly ServedModel[]): string {
  return JSON.stringify({
    models: models.map(({ name, input, output, latency, batchMax, sloMs }) => {
      const dims = ["batch", ...input.shape];
      const tensors = { inputs: [{ name: input.name, dims }], outputs: [{ name: output, dims }] };
      return { name, sloMs, batchMax, ...latency, ...tensors };
    }),
  });
}

interface LaunchOptions extends Pick<Server, "ports"> {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly workspace: string;
}

function launched(command: string, args: readonly string[], { env, cwd, ports, workspace }: LaunchOptions): Server {
  const log = join(workspace, "log.txt");
  const file = openSync(log, "w");
  const isTutti = args.includes("up");
  const child = spawn(command, args, { env, cwd, stdio: ["ignore", isTutti ? "pipe" : file, file] });
  closeSync(file);
  const processes = new ProcessGroup(child.pid ?? 0);
  const kill = (): void => processes.living().forEach(killOne);
  process.once("exit", kill);
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()));
  const stop = async (): Promise<void> => {
    processes.living(); // processes that outlive the first one are known from here on
    child.kill("SIGINT");
    const late = setTimeout(kill, STOP_MS);
    await ended;
    clearTimeout(late);
    process.off("exit", kill);
    kill();
  };
  return { child, ports, processes, log, stop };
}

/** Reads all that `tutti up --json` prints; settles with the first event of this name, or when the process ends. */
function hasSaid({ child }: Server, event: string): Promise<void> {
  return new Promise((resolve) => {
    const lines = createInterface({ input: child.stdout! });
    lines.on("line", (line) => {
      if (line.startsWith(`{"event":"${event}"`)) resolve();
    });
    lines.once("close", () => resolve());
  });
}

function killOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

function lastLine(log: string): string {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  return (lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1) ?? "").slice(0, 300);
}
