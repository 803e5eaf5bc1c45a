import { DEFAULT_SUB_CLUSTER, type Heartbeat, RankerAnnounced } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { Station } from "./station.ts";
import { wellFormed } from "./well-formed.ts";

export interface Leader {
  readonly key: ActorKey;
  readonly epoch: number;
  readonly subCluster: string;
}

/** Sub-clusters of which a leader is remembered; beyond, newcomers are not heard (T7). None is ever forgotten: an older leader could be taken for a newer one. */
const LEADERS_MAX = 1_024;

/** Who leads each sub-cluster: the highest epoch ever heard there, from announcements and heartbeats alike. Older ones are not obeyed (T5). */
export class LeaderWatch {
  readonly #onChange: (leader: Leader) => void;
  readonly #leaders = new Map<string, Leader>();

  constructor(station: Station, onChange: (leader: Leader) => void) {
    this.#onChange = onChange;
    station.onPacked(RankerAnnounced, wellFormed.rankerAnnounced, (leader) => this.#hear(leader));
  }

  of(subCluster: string | undefined): Leader | undefined {
    return subCluster === undefined ? undefined : this.#leaders.get(subCluster);
  }
  /** Whoever leads with that epoch, as far as is known. */
  withEpoch(epoch: number): Leader | undefined {
    for (const leader of this.#leaders.values()) if (leader.epoch === epoch) return leader;
    return undefined;
  }
  /** Sub-clusters that have had a leader. */
  get size(): number {
    return this.#leaders.size;
  }

  hearBeat({ key, role, epoch = 0, subCluster = DEFAULT_SUB_CLUSTER }: Heartbeat): void {
    if (role === "ranker" && epoch > 0) this.#hear({ key, epoch, subCluster });
  }

  #hear({ key, epoch, subCluster }: Leader): void {
    const known = this.#leaders.get(subCluster);
    if (known === undefined ? this.#leaders.size >= LEADERS_MAX : epoch <= known.epoch) return;
    const leader = { key, epoch, subCluster };
    this.#leaders.set(subCluster, leader);
    this.#onChange(leader);
  }
}
