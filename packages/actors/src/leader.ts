import type { Clock } from "@tutti/ports/clock";
import {
  BUCKET,
  DEFAULT_SUB_CLUSTER,
  type Heartbeat,
  LEAD_EXPECTED_FOR,
  LeadExpected,
  RankerAnnounced,
  leaseKeys,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import { type ActorKey, type Instant, after, millis } from "@tutti/units";
import { rankerIn } from "./ranker-lease.ts";
import type { ActorRuntime } from "./actor-runtime.ts";
import { wellFormed } from "./well-formed.ts";

export interface Leader {
  readonly key: ActorKey;
  readonly epoch: number;
  readonly subCluster: string;
}

/**
 * Sub-clusters of which a leader is remembered; beyond, newcomers are not heard (T7). None is ever forgotten: an older
 * leader could be taken for a newer one.
 */
const LEADERS_MAX = 1_024;

/** A lease is written before it is announced, so by then every server has it. */
const CHECKED_AFTER = millis(500);

export interface LeaderWatchOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly onChange: (leader: Leader) => void;
  /** Nobody has ever had the lease with the epoch that was believed. @param leader - who has it; undefined: nobody */
  readonly onDisproved: (subCluster: string, leader: Leader | undefined) => void;
  /** A spare asks for the lease of that sub-cluster: it wants to hear what the leader hears, from now on. */
  readonly onExpected: (successor: ActorKey, subCluster: string) => void;
}

/**
 * Who leads each sub-cluster: the highest epoch ever heard there, from announcements, heartbeats and grants alike.
 * Older ones are not obeyed (T5). And who is about to: a spare that has asked the store for the lease, for as long as
 * that may take. It is told things, and obeyed in nothing.
 *
 *   LW1. An epoch is believed at once and then looked up: one that the store has not reached is nobody's, however it
 *        was heard, and whoever has the lease leads.
 */
export class LeaderWatch {
  readonly #options: LeaderWatchOptions;
  readonly #leaders = new Map<string, Leader>();
  readonly #expected = new Map<string, { readonly key: ActorKey; readonly until: Instant }>();

  constructor(options: LeaderWatchOptions) {
    this.#options = options;
    options.runtime.onPacked(RankerAnnounced, wellFormed.rankerAnnounced, (leader, sender) => {
      if (sender === leader.key) this.hear(leader);
    });
    options.runtime.onPacked(LeadExpected, wellFormed.leadExpected, (expected, sender) => {
      if (sender === expected.key) this.#expect(expected);
    });
  }

  of(subCluster: string | undefined): Leader | undefined {
    return subCluster === undefined ? undefined : this.#leaders.get(subCluster);
  }
  /** Who should hear what its leader hears. */
  successorOf(subCluster: string | undefined): ActorKey | undefined {
    if (this.#expected.size === 0 || subCluster === undefined) return undefined;
    const expected = this.#expected.get(subCluster);
    if (expected === undefined) return undefined;
    if (this.#options.clock.now() <= expected.until) return expected.key;
    this.#expected.delete(subCluster);
    return undefined;
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
    if (role === "ranker" && epoch > 0) this.hear({ key, epoch, subCluster });
  }

  /** Somebody says that it leads, or grants as one who does. */
  hear({ key, epoch, subCluster }: Leader): void {
    const known = this.#leaders.get(subCluster);
    if (known === undefined ? this.#leaders.size >= LEADERS_MAX : epoch <= known.epoch) return;
    const leader = { key, epoch, subCluster };
    this.#leaders.set(subCluster, leader);
    this.#expected.delete(subCluster);
    this.#options.onChange(leader);
    this.#check(leader);
  }

  /** LW1. */
  #check(leader: Leader): void {
    const { clock, store, onDisproved } = this.#options;
    const { subCluster } = leader;
    const look = (): void =>
      store.get(BUCKET.leases, leaseKeys.ranker(subCluster), (entry) => {
        if (this.#leaders.get(subCluster) !== leader) return;
        if (isStoreFailure(entry)) return this.#check(leader);
        const epoch = entry === "absent" ? 0 : entry.revision;
        if (epoch >= leader.epoch) return;
        const key = entry === "absent" ? undefined : rankerIn(entry.value);
        const real = key === undefined ? undefined : { key, epoch, subCluster };
        if (real === undefined) this.#leaders.delete(subCluster);
        else this.#leaders.set(subCluster, real);
        onDisproved(subCluster, real);
      });
    clock.alarm(look).set(after(clock.now(), CHECKED_AFTER));
  }

  /** Not of a lease that another has taken by now. */
  #expect({ key, epoch, subCluster }: Leader): void {
    if (this.#leaders.get(subCluster)?.epoch !== epoch) return;
    const { clock, onExpected } = this.#options;
    this.#expected.set(subCluster, { key, until: after(clock.now(), LEAD_EXPECTED_FOR) });
    onExpected(key, subCluster);
  }
}
