import type { Heartbeat, Role } from "@tutti/protocol";

/** Roles without which no request is answered, and what each must say of itself. */
const NEEDED: readonly (readonly [Role, (peer: Heartbeat) => boolean, string])[] = [
  ["ingress", () => true, "no ingress takes requests"],
  ["batcher", () => true, "no batcher forms batches"],
  ["ranker", (peer) => (peer.epoch ?? 0) > 0, "no ranker leads"],
  ["executor", (peer) => (peer.gpus ?? []).some((gpu) => gpu.serving), "no accelerator serves"],
];

/** What keeps the cluster from answering requests; empty when nothing does. */
export function missingParts(peersOf: (role: Role) => Iterable<Heartbeat>): string[] {
  return NEEDED.filter(([role, fits]) => ![...peersOf(role)].some(fits)).map(([, , text]) => text);
}
