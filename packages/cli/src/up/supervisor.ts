/**
 * Keeps child processes running: starts them, starts again those that die (later each time, and not for ever), gathers what they print, and stops
 * them all. Children hear of this process's own end through their IPC channel, so that even SIGKILL here leaves none behind.
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
  /** Starts in a row, each dead before `healthyMs`, after which it is given up. */
  readonly attemptsMax: number;
  /** The same for a child that has never been ready: it is started wrongly rather than unlucky. */
  readonly firstAttemptsMax: number;
}

const RESTART: RestartPolicy = { firstMs: 100, maxMs: 5_000, healthyMs: 10_000, attemptsMax: 8, firstAttemptsMax: 3 };

interface Child {
  readonly spec: ChildSpec;
  process: ChildProcess | undefined;
  startedAt: number;
  deaths: number;
  everReady: boolean;
  timer: NodeJS.Timeout | undefined;
  stopping: boolean;
}

export class Supervisor {
  readonly #events: SupervisorEvents;
  readonly #restart: RestartPolicy;
  readonly #children = new Map<string, Child>();

  constructor(events: SupervisorEvents, restart: Partial<RestartPolicy> = {}) {
    this.#events = events;
    this.#restart = { ...RESTART, ...restart };
  }

  start(spec: ChildSpec): void {
    const child: Child = {
      spec,
      process: undefined,
      startedAt: 0,
      deaths: 0,
      everReady: false,
      timer: undefined,
      stopping: false,
    };
    this.#children.set(spec.name, child);
    this.#spawn(child);
  }

  /** By name; undefined between a death and the next start. */
  pidOf(name: string): number | undefined {
    return this.#children.get(name)?.process?.pid;
  }

  /** From now on nobody is started again: a signal to the whole group of processes ends children before they are asked. */
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
      const { process } = child;
      if (process === undefined || process.exitCode !== null || process.signalCode !== null) return Promise.resolve();
      process.kill("SIGTERM");
      return new Promise<void>((resolve) => {
        const timer = setTimeout(() => {
          killed.push(name);
          process.kill("SIGKILL");
        }, options.graceMs);
        process.once("exit", () => {
          clearTimeout(timer);
          resolve();
        });
      });
    });
    await Promise.all(ended);
    return killed;
  }

  /** At once and without asking. */
  kill(): void {
    this.expectEnds();
    for (const child of this.#children.values()) child.process?.kill("SIGKILL");
  }

  #spawn(child: Child): void {
    const { name, command, args, env } = child.spec;
    child.startedAt = performance.now();
    const spawned = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: { ...process.env, ...env },
    });
    child.process = spawned;
    this.#gather(name, spawned.stdout, "stdout");
    this.#gather(name, spawned.stderr, "stderr");
    spawned.on("message", (message) => {
      if (typeof message !== "object" || message === null || !("ready" in message)) return;
      child.everReady = true;
      this.#events.onReady(name, { ...message });
    });
    spawned.on("error", (error) => this.#events.onLine(name, `can't be started: ${error.message}`, "stderr"));
    // "close" comes after the last line was read, and also after a failed start; "exit" comes too early for both.
    spawned.once("close", (code, signal) => this.#onEnd(child, signal ?? `exit code ${code}`));
  }

  #gather(name: string, stream: Readable | null, kind: "stdout" | "stderr"): void {
    if (stream === null) return;
    createInterface({ input: stream }).on("line", (line) => this.#events.onLine(name, line, kind));
  }

  #onEnd(child: Child, how: string): void {
    child.process = undefined;
    const { name } = child.spec;
    if (child.stopping) return this.#events.onExit(name, how, "stopped");
    const { firstMs, maxMs, healthyMs } = this.#restart;
    const attemptsMax = child.everReady ? this.#restart.attemptsMax : this.#restart.firstAttemptsMax;
    child.deaths = performance.now() - child.startedAt >= healthyMs ? 1 : child.deaths + 1;
    if (child.deaths >= attemptsMax) return this.#events.onExit(name, how, "given-up");
    const restartMs = Math.min(maxMs, firstMs * 2 ** (child.deaths - 1));
    child.timer = setTimeout(() => this.#spawn(child), restartMs);
    this.#events.onExit(name, how, { restartMs });
  }
}
