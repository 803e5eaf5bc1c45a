/** The processes of one `tutti up`, which are started, watched and stopped together. */
import { execPath } from "node:process";
import type { ProcessRole } from "@tutti/protocol";
import { ProcessLog } from "../agent/process-log.ts";
import { type ProcessManager, keeperOf } from "../agent/process-manager.ts";
import { CommandError } from "@tutti/admin";
import { processArguments } from "../role/process-arguments.ts";
import type { Announcer } from "./announcer.ts";
import type { PlannedRole } from "./cluster-plan.ts";
import type { LogFile, RunDirectory } from "./run-directory.ts";
import { PartSwitch } from "../parts/part-switch.ts";
import { type ChildSpec, Supervisor } from "./supervisor.ts";

/** Time limit for a child's first message: an executor that loads a provider takes seconds on a busy machine. */
const READY_MS = 60_000;
/** Processes that accept requests stop first, while those that serve them still run. */
const DRAIN_MS = 10_000;
const STOP_MS = 5_000;

export class Deployment {
  readonly #announcer: Announcer;
  readonly #directory: RunDirectory;
  readonly #supervisor: Supervisor;
  readonly #logs = new Map<string, LogFile>();
  readonly #processLog = new ProcessLog();
  readonly #waiting = new Set<string>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #broken = Promise.withResolvers<never>();
  #parts: PartSwitch | undefined;
  readonly #partNames = new Set<string>();
  #planned: readonly PlannedRole[] = [];

  constructor(announcer: Announcer, directory: RunDirectory) {
    this.#announcer = announcer;
    this.#directory = directory;
    this.#broken.promise.catch(() => undefined); // the caller that awaits it handles the rejection
    this.#supervisor = new Supervisor({
      onReady: (name, message) => this.#onReady(name, message),
      onLine: (name, line) => this.#onLine(name, line),
      onExit: (name, how, next) => this.#onExit(name, how, next),
    });
  }

  get supervisor(): Supervisor {
    return this.#supervisor;
  }

  #splits(planned: readonly PlannedRole[]): PartSwitch {
    const whole = planned.filter(({ role }) => role === "executor");
    return new PartSwitch({
      supervisor: this.#supervisor,
      executors: new Map(
        whole.flatMap((one) =>
          one.splittable === undefined ? [] : [[one.name, { ...one.splittable, spec: specOf(one) }] as const],
        ),
      ),
      why: (name) => whole.find((one) => one.name === name)?.unsplittable ?? "it is no executor's accelerator",
      gpuCount: whole.reduce((sum, { gpus = 0 }) => sum + gpus, 0),
      onPart: (name, isThere) => void (isThere ? this.#partNames.add(name) : this.#partNames.delete(name)),
    });
  }

  /** Splits accelerators; undefined before `start`. */
  get parts(): PartSwitch | undefined {
    return this.#parts;
  }

  /** For this host's agent, through which operators control the processes. */
  get processManager(): ProcessManager {
    const parts = (): PartSwitch | undefined => this.#parts;
    const roleOf = (name: string): ProcessRole | undefined =>
      this.#partNames.has(name) ? "executor" : this.#planned.find((planned) => planned.name === name)?.role;
    return keeperOf({ supervisor: this.#supervisor, logs: this.#processLog, roleOf, parts });
  }

  /** Rejects when a process could not be kept alive. */
  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  /** Resolves when every process that runs from the start is ready, or when all are stopped before. */
  async start(planned: readonly PlannedRole[]): Promise<void> {
    this.#planned = planned;
    this.#parts = this.#splits(planned);
    for (const { name, isSpare } of planned) if (isSpare !== true) this.#waiting.add(name);
    for (const one of planned) {
      if (one.isSpare === true) this.#supervisor.addParked(specOf(one));
      else this.#supervisor.start(specOf(one));
    }
    const timer = setTimeout(() => {
      const late = [...this.#waiting].join(", ");
      this.#broken.reject(
        new CommandError(`not ready after ${READY_MS / 1000} s: ${late}; see ${this.#directory.logs}`),
      );
    }, READY_MS);
    try {
      await Promise.race([this.#ready.promise, this.broken]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Stops the processes that accept requests first, then the rest at once. */
  async stop(): Promise<void> {
    this.#ready.resolve(); // ends the wait of `start`
    this.#supervisor.expectEnds();
    const named = (roles: readonly string[]): string[] =>
      this.#planned.filter(({ role }) => roles.includes(role)).map(({ name }) => name);
    const killed = await this.#supervisor.stop({ names: named(["node", "ingress", "gateway"]), graceMs: DRAIN_MS });
    killed.push(...(await this.#supervisor.stop({ graceMs: STOP_MS })));
    for (const name of killed) this.#announcer.say("killed", `${name} did not stop in time and was killed`, { name });
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }

  /** Kills all processes at once. */
  kill(): void {
    this.#supervisor.kill();
  }

  #onReady(name: string, message: Readonly<Record<string, unknown>>): void {
    const { ready: _, ...fields } = message;
    const places = ["http", "grpc", "metrics"].filter((place) => typeof fields[place] === "string");
    const where = places.length === 0 ? "" : `: ${places.map((place) => String(fields[place])).join(", ")}`;
    const page = typeof fields["http"] === "string" ? `; the console: ${fields["http"]}/` : "";
    this.#announcer.say("child-ready", `${name} is ready${where}${page}`, { name, ...fields });
    this.#waiting.delete(name);
    if (this.#waiting.size === 0) this.#ready.resolve();
  }

  #onLine(name: string, line: string): void {
    let log = this.#logs.get(name);
    if (log === undefined) {
      log = this.#directory.openLog(name);
      this.#logs.set(name, log);
    }
    log.write(line);
    this.#processLog.add(name, line);
    this.#announcer.childLine(name, line);
  }

  #onExit(name: string, how: string, next: { readonly restartMs: number } | "stopped" | "given-up"): void {
    if (next === "stopped") return;
    if (next === "given-up") {
      this.#broken.reject(
        new CommandError(`${name} dies at every start (${how}); see ${this.#directory.logs}/${name}.log`),
      );
      return;
    }
    const text = `${name} ended (${how}) and starts again in ${next.restartMs} ms`;
    this.#announcer.say("child-exit", text, { name, how, restartMs: next.restartMs });
  }
}

function specOf({ name, roles, argv, prefix = [] }: PlannedRole): ChildSpec {
  const [command = execPath, ...before] = prefix;
  const script = [...(prefix.length > 0 ? [execPath] : []), ...processArguments(roles)];
  // The name identifies the process in `ps` and in tests.
  return { name, command, args: [...before, ...script, ...argv], env: { TUTTI_PROCESS: name } };
}
