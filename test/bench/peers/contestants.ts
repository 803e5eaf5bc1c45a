/** The systems that are compared: each is started, answers on a port, and is stopped. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "./free-port.ts";

const ROOT = join(import.meta.dirname, "../../..");
const VENV = join(ROOT, ".tutti/peers");

export interface Contestant {
  readonly name: string;
  readonly port: number;
  /** Where it takes requests. */
  readonly path: string;
  /** The process that all others of it descend from. */
  readonly pid: number;
  /** Whether it reads binary tensors; JSON otherwise. */
  readonly isBinary: boolean;
  stop(): Promise<void>;
}

export interface StartOptions {
  /** Path of the ONNX file. */
  readonly model: string;
  /** Further flags of `tutti up`. */
  readonly tuttiFlags: readonly string[];
  readonly executors: number;
}

export const CONTESTANTS = ["bare", "tutti", "tutti-binary", "mosec"] as const;
export type ContestantName = (typeof CONTESTANTS)[number];

/** @returns why it can't be had here, instead of the contestant */
export async function start(name: ContestantName, options: StartOptions): Promise<Contestant | string> {
  const port = await freePort();
  switch (name) {
    case "bare":
      return launched(
        name,
        port,
        spawnNode([join(import.meta.dirname, "bare-server.ts"), options.model, String(port)]),
      );
    case "tutti":
    case "tutti-binary": {
      const nats = await freePort();
      const ports = ["--port", String(nats), "--http-port", String(port), "--grpc-port", "0", "--metrics-port", "0"];
      const flags = ["--executors", String(options.executors), ...options.tuttiFlags];
      const main = join(ROOT, "packages/cli/src/main.ts");
      return launched(name, port, spawnNode([main, "up", "--json", ...ports, ...flags]), name === "tutti-binary");
    }
    case "mosec": {
      const python = join(VENV, "bin/python");
      const problem = installMosec(python);
      if (problem !== undefined) return problem;
      const env = { ...process.env, MODEL: options.model };
      const script = join(import.meta.dirname, "mosec-server.py");
      const child = spawn(python, [script, "--port", String(port), "--address", "127.0.0.1"], { env, stdio: "ignore" });
      return launched(name, port, child);
    }
  }
}

/** Once, into a folder that git ignores. @returns why it is not there */
function installMosec(python: string): string | undefined {
  try {
    if (!existsSync(python)) {
      process.stderr.write("bench:peers: makes a Python environment with mosec, numpy and onnxruntime …\n");
      execFileSync("python3", ["-m", "venv", VENV], { stdio: "ignore" });
      execFileSync(python, ["-m", "pip", "install", "-q", "mosec==0.9.8", "numpy", "onnxruntime"], { stdio: "ignore" });
    }
    execFileSync(python, ["-c", "import mosec, onnxruntime"], { stdio: "ignore" });
    return undefined;
  } catch (error) {
    return `mosec can't be installed here: ${(error as Error).message.split("\n")[0]}`;
  }
}

const spawnNode = (args: readonly string[]): ChildProcess =>
  spawn(process.execPath, args, { stdio: "ignore", cwd: ROOT });

function launched(name: string, port: number, child: ChildProcess, isBinary = false): Contestant {
  const kill = (): void => {
    for (const pid of processTree(child.pid ?? 0).reverse()) tryKill(pid, "SIGKILL");
  };
  process.once("exit", kill);
  return {
    ...{ name, port, pid: child.pid ?? 0, isBinary },
    path: name === "mosec" ? "/inference" : "/v2/models/mlp/infer",
    stop: () =>
      new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve();
        const late = setTimeout(kill, 15_000);
        child.once("exit", () => {
          clearTimeout(late);
          process.off("exit", kill);
          resolve();
        });
        tryKill(child.pid ?? 0, "SIGINT");
      }),
  };
}

function tryKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

/** A process and all that descend from it, itself first. Only Linux tells. */
export function processTree(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = statOf(Number(name));
    if (stat !== undefined) parents.set(Number(name), Number(stat[1]));
  }
  const tree = [root];
  for (let i = 0; i < tree.length; i++) for (const [pid, parent] of parents) if (parent === tree[i]) tree.push(pid);
  return tree;
}

/** Processor time of a tree of processes so far, in µs, and its resident memory in bytes. */
export function usageOf(root: number): { readonly cpuUs: number; readonly rssBytes: number } {
  let ticks = 0;
  let pages = 0;
  for (const pid of processTree(root)) {
    const stat = statOf(pid);
    if (stat === undefined) continue;
    ticks += Number(stat[11]) + Number(stat[12]);
    pages += Number(stat[21]);
  }
  return { cpuUs: ticks * 10_000, rssBytes: pages * 4_096 };
}

/** The fields of /proc/<pid>/stat behind the name: the state is the first. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
