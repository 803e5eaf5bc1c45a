import { GpuAsked, GpuFreed, GpuJoined, type GpuState, type Heartbeat } from "@tutti/protocol";
import type { Clock } from "@tutti/clock";
import type { Store } from "@tutti/store";
import type { ActorKey, GpuId, Instant } from "@tutti/units";
import { type Leader, LeaderWatch } from "../leader.ts";
import type { Station } from "../station.ts";
import type { Fence } from "./fence.ts";
import type { GpuDesk } from "./gpu-desk.ts";

export interface MembershipOptions {
  readonly self: ActorKey;
  readonly station: Station;
  readonly store: Store;
  readonly clock: Clock;
  readonly fence: Fence;
  readonly desks: ReadonlyMap<GpuId, GpuDesk>;
  readonly subCluster: string;
  /** Whether accelerators may be granted. */
  readonly serving: () => boolean;
}

/**
 * Whose leader an executor obeys, and what it tells it: when its accelerators are free, and whether they may be
 * granted.
 */
export class Membership {
  readonly #options: MembershipOptions;
  readonly #leaders: LeaderWatch;
  #subCluster: string;
  #open = false;

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#subCluster = options.subCluster;
    this.#leaders = new LeaderWatch({
      station: options.station,
      store: options.store,
      clock: options.clock,
      onChange: (leader) => {
        if (leader.subCluster !== this.#subCluster) return;
        options.fence.raise(leader.epoch);
        this.#introduce(leader.key, leader.epoch);
      },
      onDisproved: (subCluster) => {
        if (subCluster !== this.#subCluster) return;
        this.enter(subCluster);
        this.changed();
      },
      onExpected: (successor, subCluster) => {
        if (subCluster === this.#subCluster) this.#introduce(successor, options.fence.epoch);
      },
    });
    options.station.reader.on(GpuAsked, (asked, sender) => this.#onAsked(asked, sender));
  }

  get subCluster(): string {
    return this.#subCluster;
  }
  get leader(): Leader | undefined {
    return this.#leaders.of(this.#subCluster);
  }
  hearBeat(peer: Heartbeat): void {
    this.#leaders.hearBeat(peer);
  }

  /** Everything that is ready has been loaded: from now on the leader is told whenever that changes. */
  open(): void {
    this.#open = true;
    this.join();
  }
  /** Tells the leader how things stand now. */
  changed(): void {
    if (this.#open) this.join();
  }
  join(): void {
    const { leader } = this;
    if (leader === undefined) return;
    this.#options.station.beat();
    this.#tell(leader.key, leader.epoch);
    const successor = this.#leaders.successorOf(this.#subCluster);
    if (successor !== undefined) this.#tell(successor, leader.epoch);
  }

  /**
   * To a new leader, or who may become one, and to nobody else: when the leader changes everybody has enough to read. A
   * death can be proved only of who was heard (peer-probes.ts), and what is granted now must not wait for the next
   * heartbeat to be missed.
   */
  #introduce(ranker: ActorKey, epoch: number): void {
    this.#options.station.beat(ranker);
    this.#tell(ranker, epoch);
  }
  #tell(ranker: ActorKey, epoch: number): void {
    const { self, station } = this.#options;
    station.send(ranker, GpuJoined, { executor: self, epoch, gpus: this.states() });
  }

  /**
   * Another sub-cluster's leader is obeyed from now on. The one before has been told that we serve no more, or that is
   * what its time-out is for.
   */
  enter(subCluster: string): void {
    this.#subCluster = subCluster;
    this.#options.fence.move(this.leader?.epoch ?? 0);
    this.#options.station.beat();
  }

  tellFree(desk: GpuDesk, freeAt: Instant): void {
    const { self, station, fence, serving } = this.#options;
    const { leader } = this;
    if (leader === undefined || !serving()) return;
    const { gpu } = desk;
    const freed = { gpu, executor: self, epoch: leader.epoch, grantSeq: fence.sequence(gpu), freeAt };
    station.send(leader.key, GpuFreed, freed);
    const successor = this.#leaders.successorOf(this.#subCluster);
    if (successor !== undefined) station.send(successor, GpuFreed, freed);
  }

  states(): GpuState[] {
    const { clock, desks, fence, serving } = this.#options;
    const now = clock.now();
    return [...desks.values()].map((desk) => ({
      gpu: desk.gpu,
      freeAt: desk.freeAt(now),
      epoch: fence.epoch,
      grantSeq: fence.sequence(desk.gpu),
      subCluster: this.#subCluster,
      serving: serving(),
      idle: desk.isIdle,
      type: desk.engine.type,
    }));
  }

  #onAsked({ gpu, epoch, grantSeq }: GpuAsked, ranker: ActorKey): void {
    const { self, station, clock, desks, fence } = this.#options;
    const desk = desks.get(gpu);
    if (desk === undefined || epoch !== fence.epoch) return;
    // The ranker gives the accelerator away again on the strength of this answer, so a batch of the grant that it asks
    // about comes too late.
    fence.raiseSequence(gpu, grantSeq);
    const freeAt = desk.freeAt(clock.now());
    station.send(ranker, GpuFreed, { gpu, executor: self, epoch, grantSeq: fence.sequence(gpu), freeAt });
  }
}
