import type { ProcessOrder, ProcessRole, ProcessState } from "@tutti/protocol";
import { CommandError } from "@tutti/admin";
import type { PartSwitch } from "../parts/part-switch.ts";
import { bringBack, drainProcess, replaceProcess, replacementOrder } from "../up/replacement.ts";
import type { Supervisor } from "../up/supervisor.ts";
import type { ProcessLog } from "./process-log.ts";

export interface OrderOptions {
  /** Time limit for a replacement to become ready. */
  readonly readyMs: number;
  /** For `split`: the first part's share, in percent. */
  readonly size?: number | undefined;
  readonly report: (text: string) => void;
}

/** Lists a host's processes and performs operators' orders on them, for its agent. */
export interface ProcessManager {
  readonly logs: ProcessLog;
  processes(): readonly ProcessState[];
  /** @throws {CommandError} saying why it could not be done */
  perform(order: ProcessOrder, process: string, options: OrderOptions): Promise<void>;
}

export interface ProcessManagerOptions {
  readonly supervisor: Supervisor;
  readonly logs: ProcessLog;
  /** Maps a child's name to its role; undefined: operators can't see or control the child. */
  readonly roleOf: (name: string) => ProcessRole | undefined;
  /** Switches accelerators between whole and split; absent or undefined: none can be split. */
  readonly parts?: () => PartSwitch | undefined;
}

export function keeperOf({ supervisor, logs, roleOf, parts }: ProcessManagerOptions): ProcessManager {
  /** The order that is carried out: two at once could leave a whole accelerator's process beside its parts. */
  let working: string | undefined;
  return {
    logs,
    processes: () =>
      supervisor.list().flatMap(({ spec: { name }, pid, ready, restarts, state: phase }) => {
        const role = roleOf(name);
        const actor = typeof ready?.["actor"] === "string" ? ready["actor"] : "";
        const actors = Array.isArray(ready?.["actors"]) ? { actors: ready["actors"] as string[] } : {};
        return role === undefined ? [] : [{ name, role, pid: pid ?? 0, actor, ...actors, phase, restarts }];
      }),
    async perform(order, name, options) {
      if (working !== undefined) throw new CommandError(`this host is busy: ${working}`);
      working = `${order} ${name}`;
      try {
        await carryOut(order, name, options);
      } finally {
        working = undefined;
      }
    },
  };

  async function carryOut(order: ProcessOrder, name: string, { size, ...options }: OrderOptions): Promise<void> {
    if (order === "split") {
      const splits = parts?.();
      if (splits === undefined || size === undefined) throw new CommandError(`${name} can't be split here`);
      return splits.split(name, size, options);
    }
    if (parts?.()?.isSplit(name) === true) {
      // Its parts hold the accelerator's resources now.
      const text = `${name} is split: its parts run instead, until \`tutti split ${name} 100\``;
      if (order === "restart") return options.report(text);
      throw new CommandError(text);
    }
    return supervisor.obey(name, order, () => {
      if (order === "drain") return drainProcess(supervisor, name, { ...options, graceMs: options.readyMs });
      if (order === "undrain") return bringBack(supervisor, name, options);
      const role = roleOf(name) ?? "executor";
      return replaceProcess(supervisor, { name, order: replacementOrder(role), ...options });
    });
  }
}
