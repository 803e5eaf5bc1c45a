import { GpuAsked, GpuFreed, GpuJoined, type GpuState, type Heartbeat, type MessageType } from "@tutti/protocol";
import type { Clock } from "@tutti/ports/clock";
import type { Store } from "@tutti/ports/store";
import type { ActorKey, GpuId, Instant } from "@tutti/units";
import { type Leader, type ActorRuntime, LeaderWatch } from "@tutti/actors/runtime";
import type { Fence } from "./fence.ts";
import type { GpuSlot } from "./gpu-slot.ts";

export interface RankerLinkOptions {
  readonly self: ActorKey;
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  readonly fence: Fence;
  readonly slots: ReadonlyMap<GpuId, GpuSlot>;
  readonly subCluster: string;
  /** Whether accelerators may be granted. */
  readonly serving: () => boolean;
}

/**
 * Link of an executor to the leader whose grants it accepts. It reports when the accelerators are free, and whether
 * they may be granted.
 */
export class RankerLink {
  readonly #options: RankerLinkOptions;
  readonly #leaders: LeaderWatch;
  #subCluster: string;
  #open = false;

  constructor(options: RankerLinkOptions) {
    this.#options = options;
    this.#subCluster = options.subCluster;
    this.#leaders = new LeaderWatch({
      runtime: options.runtime,
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
    options.runtime.reader.on(GpuAsked, (asked, sender) => this.#onAsked(asked, sender));
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

  /** Starts to report to the leader, once all ready models are loaded. */
  open(): void {
    this.#open = true;
    this.join();
  }
  /** Reports the present state to the leader. */
  changed(): void {
    if (this.#open) this.join();
  }
  join(): void {
    const { leader } = this;
    if (leader === undefined) return;
    this.#options.runtime.beat();
    this.#tell(leader.key, leader.epoch);
    const successor = this.#leaders.successorOf(this.#subCluster);
    if (successor !== undefined) this.#tell(successor, leader.epoch);
  }

  /**
   * Introduces the executor to a new or expected leader, and to no other actor. At a change of leader all actors have
   * enough to read. A death can be proved only for a peer that was heard (peer-probes.ts), and batches granted now must
   * not wait for the next heartbeat to be missed.
   */
  #introduce(ranker: ActorKey, epoch: number): void {
    this.#options.runtime.beat(ranker);
    this.#tell(ranker, epoch);
  }
  #tell(ranker: ActorKey, epoch: number): void {
    const { self, runtime } = this.#options;
    runtime.send(ranker, GpuJoined, { executor: self, epoch, gpus: this.states() });
  }

  /**
   * Accepts grants of another sub-cluster's leader from now on. The former leader has heard that we no longer serve, or
   * finds it out by its time-out.
   */
  enter(subCluster: string): void {
    this.#subCluster = subCluster;
    this.#options.fence.move(this.leader?.epoch ?? 0);
    this.#options.runtime.beat();
  }

  /** A batch makes the accelerator free at another time than planned: the ranker learns from it what batches take. */
  tellFree(slot: GpuSlot, freeAt: Instant): void {
    const { self, fence } = this.#options;
    const { gpu } = slot;
    const freed = { gpu, executor: self, grantSeq: fence.sequence(gpu), freeAt };
    this.#report(GpuFreed, (epoch) => ({ ...freed, epoch }));
  }

  /** Something else than the end of a batch does: a run without a grant, or a batch that is refused. */
  tellOccupied(slot: GpuSlot, freeAt: Instant): void {
    const gpus = [this.#stateOf(slot, freeAt)];
    this.#report(GpuJoined, (epoch) => ({ executor: this.#options.self, epoch, gpus }));
  }

  /** Sends a report to the leader, and to the one that is expected to follow it. */
  #report<T>(type: MessageType<T>, report: (epoch: number) => T): void {
    const { runtime, serving } = this.#options;
    const { leader } = this;
    if (leader === undefined || !serving()) return;
    const value = report(leader.epoch);
    runtime.send(leader.key, type, value);
    const successor = this.#leaders.successorOf(this.#subCluster);
    if (successor !== undefined) runtime.send(successor, type, value);
  }

  states(): GpuState[] {
    const now = this.#options.clock.now();
    return [...this.#options.slots.values()].map((slot) => this.#stateOf(slot, slot.freeAt(now)));
  }
  #stateOf(slot: GpuSlot, freeAt: Instant): GpuState {
    const { fence, serving } = this.#options;
    return {
      gpu: slot.gpu,
      freeAt,
      epoch: fence.epoch,
      grantSeq: fence.sequence(slot.gpu),
      subCluster: this.#subCluster,
      serving: serving(),
      idle: slot.isIdleForRequests,
      type: slot.engine.type,
    };
  }

  #onAsked({ gpu, epoch, grantSeq }: GpuAsked, ranker: ActorKey): void {
    const { self, runtime, clock, slots, fence } = this.#options;
    const slot = slots.get(gpu);
    if (slot === undefined || epoch !== fence.epoch) return;
    // The ranker grants the accelerator again on the strength of this answer, so a late batch of the grant in question
    // must be refused.
    fence.raiseSequence(gpu, grantSeq);
    const freeAt = slot.freeAt(clock.now());
    runtime.send(ranker, GpuFreed, { gpu, executor: self, epoch, grantSeq: fence.sequence(gpu), freeAt });
  }
}
