/**
 * A process that takes another's place: it loads, says that it is ready, and serves once whoever started it says so
 * (docs/architecture.md, T4).
 */
import type { RoleContext } from "./run-process.ts";

/** In the environment of a process that is to wait. */
export const HELD_VARIABLE = "TUTTI_HELD";

const isLetGo = (message: unknown): boolean => typeof message === "object" && message !== null && "serve" in message;

/** For an executor's ports: nothing, where it need not wait. */
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
