import { DEFAULT_SUB_CLUSTER, type Heartbeat } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { Directory } from "../directory.ts";

/** R4: who belongs to a ranker's sub-cluster. Batchers are everybody's. */
export class OwnPeers {
  readonly #directory: () => Directory;
  readonly #self: ActorKey;
  readonly #subCluster: string;

  constructor(
    directory: () => Directory,
    { key, subCluster }: { readonly key: ActorKey; readonly subCluster: string },
  ) {
    this.#directory = directory;
    this.#self = key;
    this.#subCluster = subCluster;
  }

  has({ role, gpus, subCluster = DEFAULT_SUB_CLUSTER }: Heartbeat): boolean {
    if (role === "executor") return gpus === undefined || gpus.some((gpu) => gpu.subCluster === this.#subCluster);
    return role !== "ranker" || subCluster === this.#subCluster;
  }

  get hasRankers(): boolean {
    return this.#directory().some("ranker", (peer) => this.has(peer));
  }

  /** Of the living spares we have the least key. */
  isFirstSpare(leader: ActorKey | undefined): boolean {
    const isBefore = (peer: Heartbeat): boolean => this.has(peer) && peer.key < this.#self && peer.key !== leader;
    return !this.#directory().some("ranker", isBefore);
  }
}
