import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = join(import.meta.dirname, "../../..");
const MAIN = join(ROOT, "packages/cli/src/main.ts");
const LOAD = join(ROOT, "test/bench/load/main.ts");

export interface StatusEvent {
  readonly event: "status";
  readonly seconds: number;
  readonly requests: number;
  readonly inTime: number;
  /** Refused requests by code. */
  readonly reasons: Readonly<Record<string, number>>;
  readonly batches: number;
  readonly items: number;
  readonly gpus: readonly {
    readonly gpu: number;
    readonly busy: number;
    readonly busyUs: number;
    readonly batches: number;
    readonly items: number;
  }[];
  readonly threads: readonly {
    readonly name: string;
    readonly batches: number;
    readonly items: number;
    readonly lateStarts: number;
    readonly delaysUs: Readonly<Record<Delay, number>>;
    readonly measuredUs: Readonly<Record<Measure, number>>;
  }[];
}
/**
 * Measured delays. `arrive`: from arrival until a batcher knows of a request; `grant`: from when a grant was due until
 * the batcher has it; `start`: from a grant's sending until its batch could start.
 */
export type Measure = "arrive" | "grant" | "start";
/** Delays that the scheduler sets aside. */
export type Delay = "ctrl" | "perItem" | "respond" | "guard" | "reserve";

/** `tutti up` as a user starts it, watched through its JSON lines. */
export class RunningSystem {
  readonly #child: ChildProcess;
  readonly #events: Record<string, unknown>[] = [];
  readonly #hearers = new Set<(event: Record<string, unknown>) => void>();
  url = "";

  private constructor(child: ChildProcess) {
    this.#child = child;
    createInterface({ input: child.stdout! }).on("line", (line) => {
      if (!line.startsWith("{")) return;
      const event = JSON.parse(line) as Record<string, unknown>;
      this.#events.push(event);
      for (const hear of this.#hearers) hear(event);
    });
  }

  static async start(args: readonly string[]): Promise<RunningSystem> {
    const child = spawn(process.execPath, [MAIN, "up", "--json", "--port", "0", ...args], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const system = new RunningSystem(child);
    const nats = await Promise.race([system.next("nats"), died(child)]);
    system.url = String(nats["url"]);
    await Promise.race([system.next("ready"), died(child)]);
    return system;
  }

  /** The first event of that name that has the field, past or to come. */
  async next(name: string, field = "event"): Promise<Record<string, unknown>> {
    const isIt = (event: Record<string, unknown>): boolean => event["event"] === name && field in event;
    return this.#events.find(isIt) ?? (await this.#following(isIt));
  }
  /** The next status to come. */
  async nextStatus(): Promise<void> {
    await this.#following((event) => event["event"] === "status");
  }
  async #following(isIt: (event: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    return new Promise((resolve) => {
      const hear = (event: Record<string, unknown>): void => {
        if (!isIt(event)) return;
        this.#hearers.delete(hear);
        resolve(event);
      };
      this.#hearers.add(hear);
    });
  }

  /** Runs `act`, and collects the status events meanwhile. */
  async watch<Outcomes>(act: () => Promise<Outcomes>): Promise<{ outcomes: Outcomes; during: StatusEvent[] }> {
    const during: StatusEvent[] = [];
    const hear = (event: Record<string, unknown>): void =>
      void (event["event"] === "status" && during.push(event as unknown as StatusEvent));
    this.#hearers.add(hear);
    const outcomes = await act();
    this.#hearers.delete(hear);
    return { outcomes, during };
  }

  /**
   * Runs the load generator against the system. @returns its report, with the status events and processor time
   * meanwhile
   */
  async load<Report>(args: readonly string[]): Promise<{ report: Report; during: StatusEvent[]; cpu: CpuShare[] }> {
    const during: StatusEvent[] = [];
    const hear = (event: Record<string, unknown>): void =>
      void (event["event"] === "status" && during.push(event as unknown as StatusEvent));
    this.#hearers.add(hear);
    const generator = spawn(process.execPath, [LOAD, "--nats", this.url, ...args], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const before = this.cpuTimes();
    let output = "";
    generator.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const generatorCpu = watchCpu(generator.pid!);
    const [code] = (await once(generator, "close")) as [number | null];
    this.#hearers.delete(hear);
    if (code !== 0) throw new Error(`the load generator ended with ${code}`);
    const after = this.cpuTimes();
    const cpu = [...after].map(([name, seconds]) => ({ name, seconds: seconds - (before.get(name) ?? 0) }));
    return {
      report: JSON.parse(output) as Report,
      during,
      cpu: [...cpu, { name: "load generator", seconds: generatorCpu() }],
    };
  }

  /** Processor seconds of every process of the system, by role (`executor`, `nats-server`, …). */
  cpuTimes(): Map<string, number> {
    const times = new Map<string, number>();
    for (const pid of descendants(this.#child.pid!)) {
      const name = nameOf(pid);
      times.set(name, (times.get(name) ?? 0) + cpuOf(pid));
    }
    return times;
  }

  /** Process ids of `tutti up`, its roles and its NATS server. */
  pids(): number[] {
    return descendants(this.#child.pid!);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.kill("SIGINT");
    await once(this.#child, "exit");
  }
}

export interface CpuShare {
  readonly name: string;
  readonly seconds: number;
}

async function died(child: ChildProcess): Promise<never> {
  const [code] = (await once(child, "exit")) as [number | null];
  throw new Error(`tutti up ended with ${code} before it served`);
}

function descendants(pid: number): number[] {
  let children: number[] = [];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
      .trim()
      .split(/\s+/)
      .filter(Boolean)
      .map(Number);
  } catch {
    return []; // It ended meanwhile.
  }
  return [pid, ...children.flatMap(descendants)];
}

function nameOf(pid: number): string {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return /services\/([a-z]+)\//.exec(command)?.[1] ?? (command.includes("nats-server") ? "nats-server" : "tutti up");
  } catch {
    return "ended";
  }
}

/** User and system time; clock ticks are 10 ms on every Linux that Node runs on. */
function cpuOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return 0;
  }
}

function watchCpu(pid: number): () => number {
  let last = 0;
  const timer = setInterval(() => (last = Math.max(last, cpuOf(pid))), 200);
  return () => {
    clearInterval(timer);
    return last;
  };
}
