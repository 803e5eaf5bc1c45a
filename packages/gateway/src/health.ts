import type { CatalogModel } from "@tutti/actors";
import { type Heartbeat, type Role, publicNameOf } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/** Roles without which no request is answered, with the condition on their heartbeats. */
const NEEDED: readonly (readonly [Role, (peer: Heartbeat) => boolean, string])[] = [
  ["ingress", () => true, "no ingress takes requests"],
  ["batcher", () => true, "no batcher forms batches"],
  ["ranker", (peer) => (peer.epoch ?? 0) > 0, "no ranker leads"],
  ["executor", (peer) => (peer.gpus ?? []).some((gpu) => gpu.serving), "no accelerator serves"],
];

/**
 * The reasons why the cluster can't answer requests; empty if it can. While NATS is away peers are not believed dead,
 * since none of them can be heard; those that are near serve without it.
 */
export function missingParts(
  isHeard: boolean,
  peersOf: (role: Role) => Iterable<Heartbeat>,
  isNear: (peer: ActorKey) => boolean,
): string[] {
  const isThere = ([role, fits]: (typeof NEEDED)[number]): boolean =>
    [...peersOf(role)].some((peer) => fits(peer) && (isHeard || isNear(peer.key)));
  const missing = NEEDED.filter((part) => !isThere(part)).map(([, , text]) => text);
  return isHeard || missing.length === 0 ? missing : ["the NATS server can't be reached"];
}

/** A model that is refused, quarantined or has failed will not be served by waiting; its own status says why. */
const SETTLED: ReadonlySet<string> = new Set(["refused", "failed", "quarantined"]);

/**
 * Desired models that are not served yet.
 *
 * @param awaited - names that must be among the models before the cluster is ready
 */
export function unservedModels(models: Iterable<CatalogModel>, awaited: readonly string[]): string[] {
  const texts: string[] = [];
  const known = new Set<string>();
  for (const { spec, status, lease } of models) {
    const name = publicNameOf(spec.name);
    known.add(name);
    if (SETTLED.has(status?.state ?? "") || (status?.state === "ready" && lease !== undefined)) continue;
    texts.push(`"${name}" is being prepared (${status?.state ?? "waiting for an executor"})`);
  }
  for (const name of awaited) if (!known.has(name)) texts.push(`"${name}" is not loaded yet`);
  return texts;
}
