/**
 * Splits accelerators of this host into parts, resizes them, and makes them whole again while they serve. See gpulet,
 * §4, and docs/algorithms.md, D5. A process keeps its size for life, so another size needs other processes.
 *
 *   PS1. New processes load and warm up while the old ones serve. If one of them fails to start, the new ones end, and
 *        the old ones are not affected.
 *   PS2. Old processes finish accepted batches and end before new ones serve: an accelerator's parts never share
 *        resources (docs/architecture.md, T4).
 *   PS3. An accelerator is whole, or in exactly two parts that add up to it.
 */
import { WHOLE } from "@tutti/planning";
import { GPUS_MAX } from "@tutti/units";
import { CommandError } from "@tutti/admin";
import { HELD_VARIABLE } from "../role/held.ts";
import { type OrderOptions, drainProcess } from "../up/replacement.ts";
import type { ChildSpec, Supervisor } from "../up/supervisor.ts";
import { type Machine, type Part, launchOf } from "./part-launch.ts";

/** An executor's process that drives one accelerator. */
export interface SplittableExecutor {
  readonly spec: ChildSpec;
  readonly gpu: number;
  readonly machine: Machine;
  /** Bytes of its accelerator for weights. */
  readonly memory: number | undefined;
}

export interface PartSwitchOptions {
  readonly supervisor: Supervisor;
  /** By the names of their processes. */
  readonly executors: ReadonlyMap<string, SplittableExecutor>;
  /** The reason why another process can't be split, for people. */
  readonly why: (name: string) => string;
  /** Number of whole accelerators: ids of parts come after them. */
  readonly gpuCount: number;
  /** Called when a part's process is added or removed. */
  readonly onPart: (name: string, isThere: boolean) => void;
}

type Switching = Pick<OrderOptions, "readyMs" | "graceMs" | "report">;

export class PartSwitch {
  readonly #options: PartSwitchOptions;
  /** Names of the processes on a split accelerator, by the name of the whole one's process. */
  readonly #parts = new Map<string, readonly string[]>();

  constructor(options: PartSwitchOptions) {
    this.#options = options;
  }

  /** Whether the accelerator of the named process is split. */
  isSplit(name: string): boolean {
    return this.#parts.has(name);
  }

  /**
   * @param name - process of the whole accelerator, also while it is split
   * @param size - the first part's share, in percent; the second part is the rest; 100: whole
   * @throws {CommandError} such a split is impossible, or a process does not become ready: then nothing changes
   */
  async split(name: string, size: number, options: Switching): Promise<void> {
    const { supervisor, executors, why } = this.#options;
    const executor = executors.get(name);
    if (executor === undefined) throw new CommandError(`${name} can't be split: ${why(name)}`);
    const before = this.#parts.get(name) ?? [name];
    const next = size === WHOLE ? [{ ...executor.spec, name }] : this.#partSpecs(name, executor, size);
    if (next.every((spec) => before.includes(spec.name)))
      return options.report(`${name} is ${this.isSplit(name) ? "split so" : "whole"} already`);
    const away = supervisor.list().find(({ spec, state }) => before.includes(spec.name) && state === "parked");
    if (away !== undefined)
      throw new CommandError(`${away.spec.name} is drained: \`tutti undrain\` brings it back first`);
    const launched = next.map((spec) => spec.name);
    await this.#launch(next, options); // PS1
    const running = supervisor.list().filter(({ spec }) => before.includes(spec.name));
    await Promise.all(running.map(({ spec }) => drainProcess(supervisor, spec.name, options))); // PS2
    for (const one of launched) supervisor.release(one);
    for (const one of before) if (one !== name) this.#forget(one);
    if (size === WHOLE) this.#parts.delete(name);
    else this.#parts.set(name, launched);
    options.report(`${name}: ${launched.join(" and ")} serve${launched.length === 1 ? "s" : ""}`);
  }

  async #launch(specs: readonly ChildSpec[], options: Switching): Promise<void> {
    const { supervisor, onPart, executors } = this.#options;
    const names = specs.map(({ name }) => name);
    for (const spec of specs) {
      supervisor.addParked({ ...spec, env: { ...spec.env, [HELD_VARIABLE]: "1" } });
      if (!executors.has(spec.name)) onPart(spec.name, true);
    }
    const outcomes = await Promise.all(
      names.map(async (name) => {
        const launched = supervisor.unpark(name);
        options.report(`${name}: starts (pid ${launched.pid}), and loads while others serve`);
        return supervisor.outcome(launched, options.readyMs);
      }),
    );
    const failed = outcomes.findIndex((outcome) => outcome === "late" || "ended" in outcome);
    if (failed < 0) return options.report(`${names.join(" and ")}: ready to serve`);
    for (const name of names) {
      await drainProcess(supervisor, name, { ...options, report: () => undefined });
      if (!executors.has(name)) this.#forget(name);
    }
    const outcome = outcomes[failed]!;
    const how = outcome === "late" ? `was not ready within ${options.readyMs / 1000} s` : "ended before it was ready";
    throw new CommandError(`${names[failed]} ${how}; everything is as it was`);
  }

  /** PS3. */
  #partSpecs(name: string, { spec, gpu, machine, memory }: SplittableExecutor, size: number): ChildSpec[] {
    const sizes = [size, WHOLE - size];
    return sizes.map((own, place): ChildSpec => {
      const part: Part = { size: own, place: place as 0 | 1 };
      const { prefix, env, threads } = launchOf(part, machine);
      const id = this.#options.gpuCount + 2 * gpu + place;
      if (id >= GPUS_MAX) throw new CommandError(`${name} can't be split: there are no ids left for its parts`);
      const args = ["--gpus", String(id), "--part", String(own), "--threads", String(threads)];
      if (memory !== undefined) args.push("--memory", String(Math.floor((memory * own) / WHOLE)));
      const partName = `${name}-${"ab"[place]}${own}`;
      const whole = wholeCommand(spec);
      const [command = spec.command, ...before] = [...prefix, whole.command];
      return {
        name: partName,
        command,
        // The last of two equal flags counts.
        args: [...before, ...whole.args, ...args],
        env: { ...spec.env, ...env, TUTTI_PROCESS: partName },
      };
    });
  }

  #forget(name: string): void {
    this.#options.supervisor.forget(name);
    this.#options.onPart(name, false);
  }
}

/** The command without the prefix that binds it to cores. */
function wholeCommand({ command, args }: ChildSpec): Pick<ChildSpec, "command" | "args"> {
  return command === "taskset" ? { command: args[2]!, args: args.slice(3) } : { command, args };
}
