import { CandidateOffered } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Clock } from "@tutti/ports/clock";
import type { Grant, ModelEvent } from "@tutti/scheduling";
import type { ActorKey } from "@tutti/units";
import { type Leader, LeaderWatch } from "../leader.ts";
import { PlacementWatcher } from "../placement-watcher.ts";
import type { ActorRuntime } from "../actor-runtime.ts";
import type { Dispatcher } from "./dispatcher.ts";
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
 * Which leader each ModelThread offers to: that of its model's sub-cluster (PL2). When the model moves, its candidate
 * is withdrawn from one leader and offered to the other at once; what was dispatched runs where it is, and grants of
 * the first leader that still come are given back.
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
  /** Who hears its offers beside the leader. */
  successorOf(entry: Pick<ThreadEntry, "subCluster"> | undefined): ActorKey | undefined {
    return this.leaders.successorOf(entry?.subCluster);
  }
  /** Whether a model of that number could be granted anything. */
  hasLeader(modelNumber: number): boolean {
    return this.leaders.of(this.placement.subClusterOf(modelNumber)) !== undefined;
  }

  /**
   * Of a leader that is not the thread's own. Its epoch says nothing to the thread: epochs of several sub-clusters have
   * no order. A leader whose announcement has not come yet is known by its heartbeats as a spare.
   */
  isForeign(entry: ThreadEntry, { epoch }: Grant, ranker: ActorKey): boolean {
    const { registry } = this.#options.runtime;
    const subCluster = this.leaders.withEpoch(epoch)?.subCluster ?? registry.get(ranker)?.subCluster;
    // Where there is only one, whoever grants leads it.
    if (subCluster === undefined) return this.leaders.size > 1;
    return subCluster !== entry.subCluster;
  }

  /** Whoever grants leads, as far as we know: a grant may come before its announcement. */
  noteGrant({ subCluster }: ThreadEntry, { epoch }: Grant, ranker: ActorKey): void {
    if (subCluster !== undefined && epoch > (this.leaders.of(subCluster)?.epoch ?? 0))
      this.leaders.hear({ key: ranker, epoch, subCluster });
  }

  /** What was offered to a leader that never was is offered to the one that is. */
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
      if (threads.get(candidate.thread)?.subCluster === subCluster)
        runtime.send(successor, CandidateOffered, candidate);
  }

  #onLeader(leader: Leader): void {
    const { threads, dispatcher, step, clock } = this.#options;
    const own = [...threads.values()].filter(({ subCluster }) => subCluster === leader.subCluster);
    // It has seen no offer of ours.
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
