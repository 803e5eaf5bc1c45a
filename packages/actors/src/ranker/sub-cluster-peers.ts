import { DEFAULT_SUB_CLUSTER, type Heartbeat } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";

/** RANKER-4: the members of a ranker's sub-cluster. Batchers belong to all sub-clusters. */
export class SubClusterPeers {
  readonly #runtime: ActorRuntime;
  readonly #self: ActorKey;
  readonly #subCluster: string;

  constructor(runtime: ActorRuntime, { key, subCluster }: { readonly key: ActorKey; readonly subCluster: string }) {
    this.#runtime = runtime;
    this.#self = key;
    this.#subCluster = subCluster;
  }

  has({ role, gpus, subCluster = DEFAULT_SUB_CLUSTER }: Heartbeat): boolean {
    if (role === "executor") return gpus === undefined || gpus.some((gpu) => gpu.subCluster === this.#subCluster);
    return role !== "ranker" || subCluster === this.#subCluster;
  }

  get hasRankers(): boolean {
    return this.#runtime.registry.some("ranker", (peer) => this.has(peer));
  }

  /** Whether we have run longest of the living spares: a process that has just started is still compiling. */
  isFirstSpare(leader: ActorKey | undefined): boolean {
    const isBefore = (peer: Heartbeat): boolean => this.has(peer) && peer.key !== leader && this.#isOlder(peer);
    return !this.#runtime.registry.some("ranker", isBefore);
  }

  #isOlder({ startedAt, key }: Heartbeat): boolean {
    const own = this.#runtime.startedAt;
    return startedAt < own || (startedAt === own && key < this.#self);
  }
}
