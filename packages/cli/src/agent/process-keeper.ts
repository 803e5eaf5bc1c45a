import type { ProcessOrder, ProcessState, Role } from "@tutti/protocol";
import { bringBack, drainProcess, replaceProcess, replacementOrder } from "../up/replacement.ts";
import type { Supervisor } from "../up/supervisor.ts";
import type { LogBook } from "./log-book.ts";

export interface OrderOptions {
  /** Until a replacement is ready. */
  readonly readyMs: number;
  readonly report: (text: string) => void;
}

/** What an agent needs of whoever keeps the processes. */
export interface ProcessKeeper {
  readonly logs: LogBook;
  processes(): readonly ProcessState[];
  /** @throws {CommandError} saying why it could not be done */
  perform(order: ProcessOrder, process: string, options: OrderOptions): Promise<void>;
}

/** @param roleOf - of each child; undefined for one that operators have no business with */
export function keeperOf(
  supervisor: Supervisor,
  logs: LogBook,
  roleOf: (name: string) => Role | undefined,
): ProcessKeeper {
  return {
    logs,
    processes: () =>
      supervisor.list().flatMap(({ spec: { name }, pid, ready, restarts, state: phase }) => {
        const role = roleOf(name);
        const actor = typeof ready?.["actor"] === "string" ? ready["actor"] : "";
        return role === undefined ? [] : [{ name, role, pid: pid ?? 0, actor, phase, restarts }];
      }),
    async perform(order, name, options) {
      if (order === "drain") return drainProcess(supervisor, name, { ...options, graceMs: options.readyMs });
      if (order === "undrain") return bringBack(supervisor, name, options);
      const role = roleOf(name) ?? "executor";
      return replaceProcess(supervisor, { name, order: replacementOrder(role), ...options });
    },
  };
}
