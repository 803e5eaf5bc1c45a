/**
 * Support for a process that replaces another one (docs/architecture.md, T4). It loads, reports that it is ready, and
 * serves once its parent process permits it.
 */
import type { RoleContext } from "./run-process.ts";

/** Environment variable of a process that has to wait. */
export const HELD_VARIABLE = "TUTTI_HELD";

const isLetGo = (message: unknown): boolean => typeof message === "object" && message !== null && "serve" in message;

/** An executor's port for waiting; empty if the process need not wait. */
export function heldBy({ told }: Pick<RoleContext, "told">): { readonly held?: (release: () => void) => void } {
  if (process.env["TUTTI_HELD"] === undefined) return {};
  told["held"] = true;
  return {
    held: (release) =>
      void process.on("message", (message) => {
        if (isLetGo(message)) release();
      }),
  };
}
