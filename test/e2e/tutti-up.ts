/**
 * `tutti up` as a user starts it, watched through its JSON lines. It has a free port and a run directory of its own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const ROOT = join(import.meta.dirname, "../..");
export const FIXTURES = join(ROOT, "packages/onnx-tools/fixtures");
const MAIN = join(ROOT, "packages/cli/src/main.ts");

export type UpEvent = Readonly<Record<string, unknown>> & { readonly event: string };

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class TuttiUp {
  readonly url: string;
  readonly runDirectory: string;
  readonly #child: ChildProcess;
  readonly #events: UpEvent[];
  readonly #waiting: Set<() => void>;
  readonly #errors: () => string;

  private constructor(parts: {
    readonly url: string;
    readonly runDirectory: string;
    readonly child: ChildProcess;
    readonly events: UpEvent[];
    readonly waiting: Set<() => void>;
    readonly errors: () => string;
  }) {
    this.url = parts.url;
    this.runDirectory = parts.runDirectory;
    this.#child = parts.child;
    this.#events = parts.events;
    this.#waiting = parts.waiting;
    this.#errors = parts.errors;
  }

  /**
   * @param until - the event with which it resolves; by default when everything is served
   * @param wrapper - a command that runs the one that is given to it, such as one that sets limits
   */
  static async start(
    args: readonly string[],
    runDirectory?: string,
    until = "ready",
    wrapper: readonly string[] = [],
  ): Promise<TuttiUp> {
    const directory = runDirectory ?? (await mkdtemp(join(tmpdir(), "tutti-e2e-")));
    const port = args.includes("--nats") ? [] : ["--port", "0"];
    const command = [process.execPath, MAIN, "up", "--json", ...port, "--warmup", "0", ...args];
    const [program = "", ...rest] = [...wrapper, ...command];
    const child = spawn(program, rest, {
      stdio: ["ignore", "pipe", "pipe"],
      env: environment(directory),
    });
    endWithUs(child);
    const events: UpEvent[] = [];
    const waiting = new Set<() => void>();
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
    const lookAll = (): void => {
      for (const look of [...waiting]) look();
    };
    createInterface({ input: child.stdout }).on("line", (line) => {
      events.push(JSON.parse(line) as UpEvent);
      lookAll();
    });
    child.on("close", lookAll);
    const parts = { runDirectory: directory, child, events, waiting, errors: () => errors };
    const starting = new TuttiUp({ ...parts, url: "" });
    await starting.next(until);
    const { url } = await starting.next("nats");
    return new TuttiUp({ ...parts, url: String(url) });
  }

  #said(): string {
    const lines = this.#events.filter(({ event }) => event !== "status").map((event) => JSON.stringify(event));
    return [...lines, this.#errors()].join("\n");
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get events(): readonly UpEvent[] {
    return this.#events;
  }

  /**
   * The first event of that name (that fits), from `after` on in the list of events, past or to come. It rejects when
   * `tutti up` ends without one.
   */
  next(name: string, fits: (event: UpEvent) => boolean = () => true, after = 0): Promise<UpEvent> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.#events.slice(after).find((event) => event.event === name && fits(event));
        const ended = this.#child.exitCode ?? this.#child.signalCode;
        if (found === undefined && ended === null) return;
        this.#waiting.delete(look);
        if (found !== undefined) resolve(found);
        else reject(new Error(`tutti up ended with ${ended}:\n${this.#said().slice(-4_000)}`));
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** Runs a command of the command line against this cluster, found as in a second shell. */
  command(...args: string[]): Promise<CommandResult> {
    return tutti(args, environment(this.runDirectory));
  }

  /** Process ids of `tutti up`, its roles and its NATS server. */
  processes(): number[] {
    return descendantsOf(this.pid);
  }

  /** Process id by the name in the logs, such as `executor-0`. */
  pidOf(name: string): number {
    const own = this.processes().find((pid) => environmentOf(pid).includes(`TUTTI_PROCESS=${name}`));
    if (own === undefined) throw new Error(`${name} does not run`);
    return own;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends SIGINT to the whole process group, as Ctrl-C in a terminal does. */
  interrupt(): void {
    const group = groupOf(this.pid);
    for (const pid of this.processes()) if (groupOf(pid) === group) process.kill(pid, "SIGINT");
  }

  async ended(): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, "exit");
    return this.#child.exitCode;
  }

  /** @param directory - `keep` it when another cluster uses it too */
  async stop(directory: "remove" | "keep" = "remove"): Promise<number | null> {
    this.#child.kill("SIGTERM");
    const code = await this.ended();
    if (directory === "remove") await rm(this.runDirectory, { recursive: true, force: true });
    return code;
  }
}

/** Runs `tutti` to its end. */
export async function tutti(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<CommandResult> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  endWithUs(child);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code: code ?? -1, stdout, stderr };
}

/** Ends the cluster with this process: a test that failed halfway must not leave one behind. */
function endWithUs(child: ChildProcess): void {
  const end = (): void => void child.kill("SIGTERM");
  process.on("exit", end);
  child.once("exit", () => process.off("exit", end));
}

/** Resolves when none of the processes is left; rejects when some outlive `withinMs`. A zombie has ended. */
export async function gone(pids: readonly number[], withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const left = pids.filter(runs);
    if (left.length === 0) return;
    if (performance.now() > deadline)
      throw new Error(`still there: ${left.map((pid) => `${pid} ${commandOf(pid)}`).join("; ")}`);
    await new Promise((resolve) => setTimeout(resolve, 10)); // the end of another's child makes no event
  }
}

const environment = (runDirectory: string): NodeJS.ProcessEnv => {
  const { TUTTI_NATS: _, TUTTI_CREDS: __, ...rest } = process.env;
  return { ...rest, TUTTI_RUN_DIR: runDirectory };
};

function descendantsOf(root: number): number[] {
  const parents = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    const parent = Number.isInteger(pid) ? Number(statOf(pid)?.[1]) : Number.NaN;
    if (!Number.isNaN(parent)) parents.set(parent, [...(parents.get(parent) ?? []), pid]);
  }
  const found: number[] = [];
  for (const queue = [root]; queue.length > 0;) {
    const pid = queue.shift() ?? 0;
    found.push(pid);
    queue.push(...(parents.get(pid) ?? []));
  }
  return found;
}

const groupOf = (pid: number): string | undefined => statOf(pid)?.[2];

/** State, parent and process group, which follow the name in brackets. */
function statOf(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ");
  } catch {
    return undefined; // it ended meanwhile
  }
}

function runs(pid: number): boolean {
  const state = statOf(pid)?.[0];
  return state !== undefined && state !== "Z" && state !== "X";
}

const procFile = (pid: number, name: string): string[] => {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8").split("\0");
  } catch {
    return [];
  }
};
const environmentOf = (pid: number): string[] => procFile(pid, "environ");
export const commandOf = (pid: number): string => procFile(pid, "cmdline").join(" ");
