import { type Heartbeat, RankerAnnounced } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { Station } from "./station.ts";
import { wellFormed } from "./well-formed.ts";

export interface Leader {
  readonly key: ActorKey;
  readonly epoch: number;
}

/** Who leads the ranking: the highest epoch ever heard, from announcements and heartbeats alike. Older ones are not obeyed (T5). */
export class LeaderWatch {
  readonly #onChange: (leader: Leader) => void;
  #leader: Leader | undefined;

  constructor(station: Station, onChange: (leader: Leader) => void) {
    this.#onChange = onChange;
    station.onPacked(RankerAnnounced, wellFormed.rankerAnnounced, ({ key, epoch }) => this.#hear(key, epoch));
  }

  get leader(): Leader | undefined {
    return this.#leader;
  }

  hearBeat(peer: Heartbeat): void {
    if (peer.role === "ranker" && peer.epoch !== undefined && peer.epoch > 0) this.#hear(peer.key, peer.epoch);
  }

  #hear(key: ActorKey, epoch: number): void {
    if (this.#leader !== undefined && epoch <= this.#leader.epoch) return;
    this.#leader = { key, epoch };
    this.#onChange(this.#leader);
  }
}
