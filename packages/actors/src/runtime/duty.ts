import type { Role } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { ActorRuntime } from "./actor-runtime.ts";

/**
 * Whether this actor does the work of its role that is done once in a cluster. The living actor that has run longest is
 * on duty. The others hear what it hears, so that any of them can take over. If two do not hear each other, both work:
 * they write by compare-and-set, or write the same.
 *
 * @param runtime - listens to the heartbeats of its own role
 */
export function isOnDuty(runtime: Pick<ActorRuntime, "registry" | "startedAt">, role: Role, self: ActorKey): boolean {
  const { registry, startedAt } = runtime;
  return !registry.some(
    role,
    (peer) => peer.startedAt < startedAt || (peer.startedAt === startedAt && peer.key < self),
  );
}
