/**
 * Keeps child processes running: starts, restarts and stops them, and collects their output. A child that dies is
 * restarted with growing delays, and not for ever. Children notice this process's own end through their IPC channel, so
 * that even SIGKILL here leaves none behind.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { ProcessOrder } from "@tutti/protocol";

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
  /** A child that lived for so long is restarted after `firstMs` again. */
  readonly healthyMs: number;
  /**
   * Starts in a row, each dead before `healthyMs`, after which the child is given up. Default: never, since it has
   * worked before, and the other children go on meanwhile.
   */
  readonly attemptsMax: number;
  /** The same limit for a child that has never been ready: its command line is probably wrong. */
  readonly firstAttemptsMax: number;
}

const RESTART: RestartPolicy = {
  firstMs: 100,
  maxMs: 5_000,
  healthyMs: 10_000,
  attemptsMax: Infinity,
  firstAttemptsMax: 3,
};

/** Result of a launch: the process's first message, its end, or neither in time. */
export type Outcome = { readonly ready: Readonly<Record<string, unknown>> } | { readonly ended: string } | "late";

export interface ChildState {
  readonly spec: ChildSpec;
  readonly pid: number | undefined;
  /** By performance.now(), for the running process. */
  readonly startedAt: number;
  /** The ready message; undefined: not ready yet. */
  readonly ready: Readonly<Record<string, unknown>> | undefined;
  /** Starts after the first one, by the supervisor or by an operator. */
  readonly restarts: number;
  readonly state: "starting" | "ready" | "waiting" | "parked" | "given-up";
  readonly held: Hold;
  /** The operator's order that is being carried out on it. */
  readonly order: ChildOrder | undefined;
}

/** An order that concerns one child alone. */
export type ChildOrder = Exclude<ProcessOrder, "split">;

/** How an operator's orders keep a child: down or up, whatever the autoscaler is advised; undefined: neither. */
export type Hold = "down" | "up" | undefined;

interface Child {
  readonly spec: ChildSpec;
  process: ChildProcess | undefined;
  /** Its starting successor, and predecessors that are still ending: an operator's restart runs two at once. */
  readonly others: Set<ChildProcess>;
  startedAt: number;
  deaths: number;
  starts: number;
  everReady: boolean;
  ready: Readonly<Record<string, unknown>> | undefined;
  timer: NodeJS.Timeout | undefined;
  /** Whether its processes, which may wait for permission, may serve. */
  released: boolean;
  /** How its last process ended unexpectedly: passed to the next one. */
  lastEnd: string | undefined;
  stopping: boolean;
  /** An operator keeps it down, or its successor is starting: its end needs no restart. */
  parked: boolean;
  givenUp: boolean;
  held: Hold;
  order: ChildOrder | undefined;
}

/**
 * Settings that make glibc return memory. Model files of 32 MB and more are mapped and unmapped instead of staying in a
 * heap that only grows, and threads share two heaps. The inputs of a batch, some MB, stay in the heap: a page that is
 * mapped anew costs more than to fill it. No effect on other systems.
 */
const LEAN_MALLOC = { MALLOC_ARENA_MAX: "2", MALLOC_MMAP_THRESHOLD_: "33554432", MALLOC_TRIM_THRESHOLD_: "67108864" };

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

  /** Adds a child that stays down until it is unparked. */
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
      held: undefined,
      order: undefined,
    };
    this.#children.set(spec.name, child);
    return child;
  }

  /** The pid by name; undefined between a death and the next start. */
  pidOf(name: string): number | undefined {
    return livingOf(this.#children.get(name))?.pid;
  }

  /** Stops all restarts: a signal to the whole process group ends children before `stop` does. */
  expectEnds(): void {
    for (const child of this.#children.values()) {
      child.stopping = true;
      clearTimeout(child.timer);
    }
  }

  /**
   * Asks the named children (all by default) to end, and waits for it.
   *
   * @param graceMs - time limit; then the remaining ones are killed
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

  /** Kills all children at once. */
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
      held: child.held,
      order: child.order,
    }));
  }

  /** Starts a second process of the child beside the running one; it replaces that only once it is promoted. */
  launchBeside(name: string): ChildProcess {
    const child = this.#child(name);
    const launched = this.#launch(child);
    child.others.add(launched);
    return launched;
  }

  /** Waits for the result of a launch. */
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

  /** Makes `launched` the child's process. @returns the previous process, if it still runs */
  promote(name: string, launched: ChildProcess, ready: Readonly<Record<string, unknown>>): ChildProcess | undefined {
    const child = this.#child(name);
    clearTimeout(child.timer); // the restart of a predecessor that died meanwhile
    const before = child.process;
    if (before !== undefined) child.others.add(before);
    child.others.delete(launched);
    Object.assign(child, { process: launched, startedAt: performance.now(), ready, deaths: 0, givenUp: false });
    return before;
  }

  /** Marks the child's end as expected, without a restart. @returns its process, which the caller ends */
  park(name: string): ChildProcess | undefined {
    const child = this.#child(name);
    child.parked = true;
    clearTimeout(child.timer);
    return child.process;
  }

  /**
   * Carries out an operator's order, and then keeps to it: one that failed holds nothing. A drained child is held down,
   * until it is undrained or restarted. One that is undrained although no operator drained it is held up, until it is
   * drained.
   */
  async obey(name: string, order: ChildOrder, carryOut: () => Promise<void>): Promise<void> {
    const child = this.#child(name);
    const wasParked = child.parked;
    child.order = order;
    try {
      await carryOut();
    } finally {
      child.order = undefined;
    }
    if (order === "drain") child.held = "down";
    else if (child.held === "down") child.held = undefined;
    else if (order === "undrain" && wasParked) child.held = "up";
  }

  /** Lets the child's waiting process serve, and every later one. */
  release(name: string): void {
    const child = this.#child(name);
    child.released = true;
    if (child.ready !== undefined) letGo(child.process);
  }

  /** Removes a child. Only for one that has no process, or whose process is ending. */
  forget(name: string): void {
    const child = this.#children.get(name);
    clearTimeout(child?.timer);
    this.#children.delete(name);
  }

  /** Starts a child that was parked or given up. */
  unpark(name: string): ChildProcess {
    const child = this.#child(name);
    Object.assign(child, { parked: false, givenUp: false, deaths: 0 });
    clearTimeout(child.timer);
    // The old process has ended, but its last output may arrive after its successor's start.
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
        ...LEAN_MALLOC, // variables that are set already win
        ...withoutSecrets(process.env),
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

/** Sends SIGTERM, and SIGKILL if the process has not ended in time. */
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

/** Tells a waiting process to serve; other processes ignore the message. */
function letGo(process: ChildProcess | undefined): void {
  if (process?.connected === true) process.send({ serve: true });
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

/** The child's running process. An ended one stays the child's until its last line is read, but doesn't count here. */
const livingOf = (child: Child | undefined): ChildProcess | undefined =>
  child?.process === undefined || hasEnded(child.process) ? undefined : child.process;

function stateOf(child: Child): ChildState["state"] {
  if (livingOf(child) !== undefined) return child.ready === undefined ? "starting" : "ready";
  if (child.parked) return "parked";
  return child.givenUp ? "given-up" : "waiting";
}

const isReady = (message: unknown): message is Readonly<Record<string, unknown>> =>
  typeof message === "object" && message !== null && "ready" in message;

/** Processes that run models need no keys to where those are kept: `tutti up` itself fetches them. */
function withoutSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(AWS_|DOCKER_AUTH_CONFIG$)/.test(name)));
}
