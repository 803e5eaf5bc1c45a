/**
 * Keeps child processes running: starts them, starts again those that die (later each time, and not for ever), gathers
 * what they print, and stops them all. Children hear of this process's own end through their IPC channel, so that even
 * SIGKILL here leaves none behind.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface ChildSpec {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface SupervisorEvents {
  /** The child sent `{ ready: true, … }` over its channel. */
  onReady(name: string, message: Readonly<Record<string, unknown>>): void;
  onLine(name: string, line: string, stream: "stdout" | "stderr"): void;
  onExit(name: string, how: string, next: { readonly restartMs: number } | "stopped" | "given-up"): void;
}

export interface RestartPolicy {
  readonly firstMs: number;
  readonly maxMs: number;
  /** A child that lived for so long starts again at `firstMs`. */
  readonly healthyMs: number;
  /**
   * Starts in a row, each dead before `healthyMs`, after which it is given up. Default: never, since it has worked
   * before and others go on meanwhile.
   */
  readonly attemptsMax: number;
  /** The same for a child that has never been ready: it is started wrongly rather than unlucky. */
  readonly firstAttemptsMax: number;
}

const RESTART: RestartPolicy = {
  firstMs: 100,
  maxMs: 5_000,
  healthyMs: 10_000,
  attemptsMax: Infinity,
  firstAttemptsMax: 3,
};

/** What became of a process: its first message, its end, or neither in time. */
export type Outcome = { readonly ready: Readonly<Record<string, unknown>> } | { readonly ended: string } | "late";

export interface ChildState {
  readonly spec: ChildSpec;
  readonly pid: number | undefined;
  /** By performance.now(), of the process that runs. */
  readonly startedAt: number;
  /** What it said when it was ready; undefined before. */
  readonly ready: Readonly<Record<string, unknown>> | undefined;
  /** Starts after the first one, whoever asked for them. */
  readonly restarts: number;
  readonly state: "starting" | "ready" | "waiting" | "parked" | "given-up";
}

interface Child {
  readonly spec: ChildSpec;
  process: ChildProcess | undefined;
  /** Its successor while that starts, and predecessors that are still ending: an operator's restart has two at once. */
  readonly others: Set<ChildProcess>;
  startedAt: number;
  deaths: number;
  starts: number;
  everReady: boolean;
  ready: Readonly<Record<string, unknown>> | undefined;
  timer: NodeJS.Timeout | undefined;
  /** It may serve, where its processes wait until they are told so. */
  released: boolean;
  /** How its process ended last without being asked to: told to the next one. */
  lastEnd: string | undefined;
  stopping: boolean;
  /** An operator keeps it down, or has its successor started: its end is nothing to repair. */
  parked: boolean;
  givenUp: boolean;
}

/**
 * With which glibc gives memory back: model files and tensors of 4 MB and more are mapped and unmapped instead of
 * staying in a heap that only grows, and threads share two heaps. Without effect on other systems.
 */
const LEAN_MALLOC = { MALLOC_ARENA_MAX: "2", MALLOC_MMAP_THRESHOLD_: "4194304", MALLOC_TRIM_THRESHOLD_: "8388608" };

export class Supervisor {
  readonly #events: SupervisorEvents;
  readonly #restart: RestartPolicy;
  readonly #children = new Map<string, Child>();

  constructor(events: SupervisorEvents, restart: Partial<RestartPolicy> = {}) {
    this.#events = events;
    this.#restart = { ...RESTART, ...restart };
  }

  start(spec: ChildSpec): void {
    this.#spawn(this.#add(spec));
  }

  /** Known, and down until it is unparked. */
  addParked(spec: ChildSpec): void {
    this.#add(spec).parked = true;
  }

  #add(spec: ChildSpec): Child {
    const child: Child = {
      spec,
      process: undefined,
      others: new Set(),
      startedAt: 0,
      deaths: 0,
      starts: 0,
      everReady: false,
      ready: undefined,
      timer: undefined,
      released: false,
      lastEnd: undefined,
      stopping: false,
      parked: false,
      givenUp: false,
    };
    this.#children.set(spec.name, child);
    return child;
  }

  /** By name; undefined between a death and the next start. */
  pidOf(name: string): number | undefined {
    return livingOf(this.#children.get(name))?.pid;
  }

  /**
   * From now on nobody is started again: a signal to the whole group of processes ends children before they are asked.
   */
  expectEnds(): void {
    for (const child of this.#children.values()) {
      child.stopping = true;
      clearTimeout(child.timer);
    }
  }

  /**
   * Asks the named children (all by default) to end, and waits for it.
   *
   * @param graceMs - after which those that are still there are killed
   * @returns the names of those that had to be killed
   */
  async stop(options: { readonly names?: readonly string[]; readonly graceMs: number }): Promise<string[]> {
    const names = options.names ?? [...this.#children.keys()];
    const killed: string[] = [];
    const ended = names.map((name): Promise<void> => {
      const child = this.#children.get(name);
      if (child === undefined) return Promise.resolve();
      child.stopping = true;
      clearTimeout(child.timer);
      const living = [child.process, ...child.others].filter((process) => process !== undefined);
      return Promise.all(living.map((process) => endProcess(process, options.graceMs))).then((ends) => {
        if (ends.includes("killed")) killed.push(name);
      });
    });
    await Promise.all(ended);
    return killed;
  }

  /** At once and without asking. */
  kill(): void {
    this.expectEnds();
    for (const child of this.#children.values())
      for (const process of [child.process, ...child.others]) process?.kill("SIGKILL");
  }

  list(): ChildState[] {
    return [...this.#children.values()].map((child) => ({
      spec: child.spec,
      pid: livingOf(child)?.pid,
      startedAt: child.startedAt,
      ready: child.ready,
      restarts: Math.max(0, child.starts - 1),
      state: stateOf(child),
    }));
  }

  /** Starts a second process of the child beside the one that runs; it counts as the child only once it is promoted. */
  launchBeside(name: string): ChildProcess {
    const child = this.#child(name);
    const launched = this.#launch(child);
    child.others.add(launched);
    return launched;
  }

  /** What became of a process that was just launched. */
  outcome(process: ChildProcess, withinMs: number): Promise<Outcome> {
    return new Promise((resolve) => {
      const settle = (outcome: Outcome): void => {
        clearTimeout(timer);
        process.off("message", onMessage).off("close", onClose);
        resolve(outcome);
      };
      const onMessage = (message: unknown): void => {
        if (isReady(message)) settle({ ready: message });
      };
      const onClose = (code: number | null, signal: string | null): void =>
        settle({ ended: signal ?? `exit code ${code}` });
      const timer = setTimeout(() => settle("late"), withinMs);
      process.on("message", onMessage).once("close", onClose);
    });
  }

  /** `launched` is the child from now on. @returns the process that was the child until now, if it still runs */
  promote(name: string, launched: ChildProcess, ready: Readonly<Record<string, unknown>>): ChildProcess | undefined {
    const child = this.#child(name);
    clearTimeout(child.timer); // of a predecessor that died meanwhile
    const before = child.process;
    if (before !== undefined) child.others.add(before);
    child.others.delete(launched);
    Object.assign(child, { process: launched, startedAt: performance.now(), ready, deaths: 0, givenUp: false });
    return before;
  }

  /** Its end is expected, and nobody starts it again. @returns its process, to be ended */
  park(name: string): ChildProcess | undefined {
    const child = this.#child(name);
    child.parked = true;
    clearTimeout(child.timer);
    return child.process;
  }

  /** A process of it that waits for it serves from now on, and so do those that come after it. */
  release(name: string): void {
    const child = this.#child(name);
    child.released = true;
    if (child.ready !== undefined) letGo(child.process);
  }

  /** It is not known any more. Only for one that has no process, or whose process ends. */
  forget(name: string): void {
    const child = this.#children.get(name);
    clearTimeout(child?.timer);
    this.#children.delete(name);
  }

  /** Starts what was parked or given up. */
  unpark(name: string): ChildProcess {
    const child = this.#child(name);
    Object.assign(child, { parked: false, givenUp: false, deaths: 0 });
    clearTimeout(child.timer);
    // By then its successor may have started.
    if (child.process !== undefined && livingOf(child) === undefined) {
      child.others.add(child.process);
      child.process = undefined;
    }
    return child.process ?? this.#spawn(child);
  }

  #child(name: string): Child {
    const child = this.#children.get(name);
    if (child === undefined) throw new Error(`there is no child ${name}`);
    return child;
  }

  #spawn(child: Child): ChildProcess {
    child.startedAt = performance.now();
    child.ready = undefined;
    return (child.process = this.#launch(child));
  }

  #launch(child: Child): ChildProcess {
    const { name, command, args, env } = child.spec;
    child.starts++;
    const spawned = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: {
        ...LEAN_MALLOC, // what is set already wins
        ...process.env,
        ...env,
        ...(child.lastEnd !== undefined && { TUTTI_LAST_END: child.lastEnd }),
      },
    });
    this.#gather(name, spawned.stdout, "stdout");
    this.#gather(name, spawned.stderr, "stderr");
    spawned.on("message", (message) => {
      if (!isReady(message)) return;
      child.everReady = true;
      if (child.process === spawned) child.ready = message;
      if (child.released) letGo(spawned);
      this.#events.onReady(name, { ...message });
    });
    spawned.on("error", (error) => this.#events.onLine(name, `can't be started: ${error.message}`, "stderr"));
    // "close" comes after the last line was read, and also after a failed start; "exit" comes too early for both.
    spawned.once("close", (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      if (child.others.delete(spawned)) this.#events.onExit(name, how, "stopped");
      else this.#onEnd(child, how);
    });
    return spawned;
  }

  #gather(name: string, stream: Readable | null, kind: "stdout" | "stderr"): void {
    if (stream === null) return;
    createInterface({ input: stream }).on("line", (line) => this.#events.onLine(name, line, kind));
  }

  #onEnd(child: Child, how: string): void {
    child.process = undefined;
    const { name } = child.spec;
    child.ready = undefined;
    if (child.stopping || child.parked) return this.#events.onExit(name, how, "stopped");
    child.lastEnd = how;
    const { firstMs, maxMs, healthyMs } = this.#restart;
    const attemptsMax = child.everReady ? this.#restart.attemptsMax : this.#restart.firstAttemptsMax;
    child.deaths = performance.now() - child.startedAt >= healthyMs ? 1 : child.deaths + 1;
    if (child.deaths >= attemptsMax) {
      child.givenUp = true;
      return this.#events.onExit(name, how, "given-up");
    }
    const restartMs = Math.min(maxMs, firstMs * 2 ** (child.deaths - 1));
    child.timer = setTimeout(() => this.#spawn(child), restartMs);
    this.#events.onExit(name, how, { restartMs });
  }
}

/** Asks it to end, and kills it when it has not ended in time. */
export function endProcess(process: ChildProcess, graceMs: number): Promise<"ended" | "killed"> {
  if (hasEnded(process)) return Promise.resolve("ended");
  process.kill("SIGTERM");
  return new Promise((resolve) => {
    let how: "ended" | "killed" = "ended";
    const timer = setTimeout(() => {
      how = "killed";
      process.kill("SIGKILL");
    }, graceMs);
    process.once("exit", () => {
      clearTimeout(timer);
      resolve(how);
    });
  });
}

/** One that doesn't wait knows nothing of it. */
function letGo(process: ChildProcess | undefined): void {
  if (process?.connected === true) process.send({ serve: true });
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

/** One that has ended is the child until its last line was read. */
const livingOf = (child: Child | undefined): ChildProcess | undefined =>
  child?.process === undefined || hasEnded(child.process) ? undefined : child.process;

function stateOf(child: Child): ChildState["state"] {
  if (livingOf(child) !== undefined) return child.ready === undefined ? "starting" : "ready";
  if (child.parked) return "parked";
  return child.givenUp ? "given-up" : "waiting";
}

const isReady = (message: unknown): message is Readonly<Record<string, unknown>> =>
  typeof message === "object" && message !== null && "ready" in message;
