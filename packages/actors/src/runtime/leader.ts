import type { Clock } from "@tutti/ports/clock";
import {
  BUCKET,
  DEFAULT_SUB_CLUSTER,
  type Heartbeat,
  LEAD_EXPECTED_FOR,
  LeadExpected,
  RankerAnnounced,
  RankerLease,
  leaseKeys,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import { type ActorKey, type Instant, after, millis } from "@tutti/units";
import { readStored } from "@tutti/wire";
import type { ActorRuntime } from "./actor-runtime.ts";

export interface Leader {
  readonly key: ActorKey;
  readonly epoch: number;
  readonly subCluster: string;
}

/**
 * Bound of the sub-clusters whose leader is remembered; beyond it, newcomers are not heard (T7). None is ever
 * forgotten: an older leader could be taken for a newer one.
 */
const LEADERS_MAX = 1_024;

/** Delay before an epoch is checked. A lease is written before it is announced, so by then every server has it. */
const CHECKED_AFTER = millis(500);

export interface LeaderWatchOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly onChange: (leader: Leader) => void;
  /** The believed epoch never held the lease. @param leader - the holder of the lease; undefined: none */
  readonly onDisproved: (subCluster: string, leader: Leader | undefined) => void;
  /** A spare asks for the lease of that sub-cluster: it wants to hear what the leader hears, from now on. */
  readonly onExpected: (successor: ActorKey, subCluster: string) => void;
}

/**
 * Watches the leader of each sub-cluster: the highest epoch ever heard there, from announcements, heartbeats and grants
 * alike. Messages of older ones are ignored (T5). It also watches the expected successor, a spare that has asked the
 * store for the lease, for as long as that may take. A successor receives messages, but its own are not accepted as a
 * leader's.
 *
 *   LW1. An epoch is believed at once and then looked up. If the store has not reached it, nobody has that epoch,
 *        however it was heard, and the holder of the lease leads.
 */
export class LeaderWatch {
  readonly #options: LeaderWatchOptions;
  readonly #leaders = new Map<string, Leader>();
  readonly #expected = new Map<string, { readonly key: ActorKey; readonly until: Instant }>();

  constructor(options: LeaderWatchOptions) {
    this.#options = options;
    options.runtime.onPacked(RankerAnnounced, (leader, sender) => {
      if (sender === leader.key) this.hear(leader);
    });
    options.runtime.onPacked(LeadExpected, (expected, sender) => {
      if (sender === expected.key) this.#expect(expected);
    });
  }

  of(subCluster: string | undefined): Leader | undefined {
    return subCluster === undefined ? undefined : this.#leaders.get(subCluster);
  }
  /** The expected successor, which should hear what the sub-cluster's leader hears. */
  successorOf(subCluster: string | undefined): ActorKey | undefined {
    if (this.#expected.size === 0 || subCluster === undefined) return undefined;
    const expected = this.#expected.get(subCluster);
    if (expected === undefined) return undefined;
    if (this.#options.clock.now() <= expected.until) return expected.key;
    this.#expected.delete(subCluster);
    return undefined;
  }
  /** The leader with that epoch, as far as is known. */
  withEpoch(epoch: number): Leader | undefined {
    for (const leader of this.#leaders.values()) if (leader.epoch === epoch) return leader;
    return undefined;
  }
  /** Number of sub-clusters that have had a leader. */
  get size(): number {
    return this.#leaders.size;
  }

  hearBeat({ key, role, epoch = 0, subCluster = DEFAULT_SUB_CLUSTER }: Heartbeat): void {
    if (role === "ranker" && epoch > 0) this.hear({ key, epoch, subCluster });
  }

  /** A ranker claims to lead, or grants as a leader. */
  hear({ key, epoch, subCluster }: Leader): void {
    const known = this.#leaders.get(subCluster);
    if (known === undefined ? this.#leaders.size >= LEADERS_MAX : epoch <= known.epoch) return;
    const leader = { key, epoch, subCluster };
    this.#leaders.set(subCluster, leader);
    this.#expected.delete(subCluster);
    this.#options.onChange(leader);
    this.#check(leader);
  }

  /** LW1: looks an epoch up in the store. */
  #check(leader: Leader): void {
    const { clock, store, onDisproved } = this.#options;
    const { subCluster } = leader;
    const look = (): void =>
      store.get(BUCKET.leases, leaseKeys.ranker(subCluster), (entry) => {
        if (this.#leaders.get(subCluster) !== leader) return;
        if (isStoreFailure(entry)) return this.#check(leader);
        const epoch = entry === "absent" ? 0 : entry.revision;
        if (epoch >= leader.epoch) return;
        const key = entry === "absent" ? undefined : readStored(entry.value, RankerLease)?.ranker;
        const real = key === undefined ? undefined : { key, epoch, subCluster };
        if (real === undefined) this.#leaders.delete(subCluster);
        else this.#leaders.set(subCluster, real);
        onDisproved(subCluster, real);
      });
    clock.alarm(look).set(after(clock.now(), CHECKED_AFTER));
  }

  /** Notes an expected successor, unless another ranker has taken the lease by now. */
  #expect({ key, epoch, subCluster }: Leader): void {
    if (this.#leaders.get(subCluster)?.epoch !== epoch) return;
    const { clock, onExpected } = this.#options;
    this.#expected.set(subCluster, { key, until: after(clock.now(), LEAD_EXPECTED_FOR) });
    onExpected(key, subCluster);
  }
}
