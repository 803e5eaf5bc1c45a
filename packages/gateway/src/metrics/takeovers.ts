/** Counts takeovers of sub-clusters by another ranker, whose epoch is higher than that of the one before. */
import type { Heartbeat } from "@tutti/protocol";

const SUB_CLUSTERS_MAX = 64;

export class Takeovers {
  readonly #epochs = new Map<string, number>();
  readonly counts = new Map<string, number>();

  hear({ role, epoch = 0, subCluster = "main" }: Heartbeat): void {
    if (role !== "ranker" || epoch === 0) return;
    const before = this.#epochs.get(subCluster);
    if (before === undefined && this.#epochs.size >= SUB_CLUSTERS_MAX) return;
    if (before !== undefined && epoch <= before) return;
    this.#epochs.set(subCluster, epoch);
    // The first ranker that is heard took over before this process began to listen.
    this.counts.set(subCluster, before === undefined ? 0 : (this.counts.get(subCluster) ?? 0) + 1);
  }
}
