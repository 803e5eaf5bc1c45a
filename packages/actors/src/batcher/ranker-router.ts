import type { Store } from "@tutti/ports/store";
import type { Clock } from "@tutti/ports/clock";
import type { Grant, ModelEvent } from "@tutti/scheduling";
import type { ActorKey } from "@tutti/units";
import { type Leader, LeaderWatch } from "../runtime/leader.ts";
import { PlacementWatcher } from "../runtime/placement-watcher.ts";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { type Dispatcher, sendOffer } from "./dispatcher.ts";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

export interface RankerRouterOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly threads: ThreadTable;
  readonly dispatcher: () => Dispatcher;
  readonly step: (entry: ThreadEntry, event: ModelEvent) => void;
}

/**
 * Routes the offers of each ModelThread to the leader of its model's sub-cluster (PL2). When the model moves, its
 * candidate is withdrawn from one leader and offered to the other at once. Dispatched batches run where they are, and
 * late grants of the first leader are given back.
 */
export class RankerRouter {
  readonly leaders: LeaderWatch;
  readonly placement: PlacementWatcher;
  readonly #options: RankerRouterOptions;

  constructor(options: RankerRouterOptions) {
    this.#options = options;
    this.leaders = new LeaderWatch({
      ...options,
      onChange: (leader) => this.#onLeader(leader),
      onDisproved: (subCluster) => this.#onDisproved(subCluster),
      onExpected: (successor, subCluster) => this.#onExpected(successor, subCluster),
    });
    this.placement = new PlacementWatcher(options.store, options.runtime.log, () => this.#onPlacement());
  }

  leaderOf(entry: Pick<ThreadEntry, "subCluster"> | undefined): Leader | undefined {
    return this.leaders.of(entry?.subCluster);
  }
  /** Expected successor of the leader, which also receives the thread's offers. */
  successorOf(entry: Pick<ThreadEntry, "subCluster"> | undefined): ActorKey | undefined {
    return this.leaders.successorOf(entry?.subCluster);
  }
  /** Whether the model's sub-cluster has a leader that could grant to it. */
  hasLeader(modelNumber: number): boolean {
    return this.leaders.of(this.placement.subClusterOf(modelNumber)) !== undefined;
  }

  /**
   * Whether a grant comes from the leader of another sub-cluster. The thread can't compare its epoch: epochs of
   * different sub-clusters have no order. The heartbeats of a leader whose announcement has not come yet identify it as
   * a spare.
   */
  isForeign(entry: ThreadEntry, { epoch }: Grant, ranker: ActorKey): boolean {
    const { registry } = this.#options.runtime;
    const subCluster = this.leaders.withEpoch(epoch)?.subCluster ?? registry.get(ranker)?.subCluster;
    // With at most one known leader, the granting ranker leads the thread's sub-cluster.
    if (subCluster === undefined) return this.leaders.size > 1;
    return subCluster !== entry.subCluster;
  }

  /** Records the sender of a newer grant as leader: a grant may come before its leader's announcement. */
  noteGrant({ subCluster }: ThreadEntry, { epoch }: Grant, ranker: ActorKey): void {
    if (subCluster !== undefined && epoch > (this.leaders.of(subCluster)?.epoch ?? 0))
      this.leaders.hear({ key: ranker, epoch, subCluster });
  }

  /** Repeats offers that went to a ranker that never led, now to the real leader. */
  #onDisproved(subCluster: string): void {
    const { threads, dispatcher, step, clock } = this.#options;
    for (const entry of threads.values()) {
      if (entry.subCluster !== subCluster) continue;
      dispatcher().unseen(entry.id);
      step(entry, { kind: "sub-cluster-changed", at: clock.now(), epoch: this.leaderOf(entry)?.epoch ?? 0 });
    }
  }

  #onExpected(successor: ActorKey, subCluster: string): void {
    const { runtime, threads, dispatcher } = this.#options;
    for (const candidate of dispatcher().currentOffers())
      if (threads.get(candidate.thread)?.subCluster === subCluster) sendOffer(runtime, successor, candidate);
  }

  #onLeader(leader: Leader): void {
    const { threads, dispatcher, step, clock } = this.#options;
    const own = [...threads.values()].filter(({ subCluster }) => subCluster === leader.subCluster);
    // The new leader has seen no offer of these threads.
    for (const { id } of own) dispatcher().unseen(id);
    for (const entry of own) step(entry, { kind: "ranker-changed", at: clock.now(), epoch: leader.epoch });
  }

  #onPlacement(): void {
    const { threads, dispatcher, step, clock } = this.#options;
    for (const entry of threads.values()) {
      const subCluster = this.placement.subClusterOf(entry.spec.number);
      if (subCluster === entry.subCluster) continue;
      dispatcher().withdraw(entry.id);
      entry.subCluster = subCluster;
      step(entry, { kind: "sub-cluster-changed", at: clock.now(), epoch: this.leaderOf(entry)?.epoch ?? 0 });
    }
  }
}
