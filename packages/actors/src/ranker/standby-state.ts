import { type GpuFreed, type GpuState, LEAD_EXPECTED_FOR, LeadExpected } from "@tutti/protocol";
import type { Clock } from "@tutti/ports/clock";
import type { Candidate } from "@tutti/scheduling";
import { ALWAYS, type ActorKey, GPUS_MAX, type GpuId, type Instant, type ThreadId, after } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { THREADS_MAX } from "./candidate-owners.ts";
import type { SubClusterPeers } from "./sub-cluster-peers.ts";

const NOBODYS = -1;

/** Reader of the collected state: accelerators come first, then the candidates for them. */
export interface StandbyStateReader {
  readonly onGpu: (executor: ActorKey, gpu: GpuState) => void;
  readonly onOffer: (candidate: Candidate, batcher: ActorKey) => void;
}

export interface StandbyStateOptions {
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  readonly own: SubClusterPeers;
  readonly key: ActorKey;
  readonly subCluster: string;
}

/**
 * State that a spare collects while the store decides whether it leads: the newest of each accelerator and each thread.
 * The executors' answers take as long as the store's, so the spare can grant as soon as it has the lease.
 *
 *   CV1. Messages for another lease, or older than the time for which the others go on sending, don't count. They send
 *        to one spare at a time, the last that asked.
 *   CV2. All of it is soft: later changes are sent to the leader, and until then a grant that rests on old state is
 *        declined or refused, and its requests go back.
 */
export class StandbyState {
  readonly #options: StandbyStateOptions;
  readonly #gpus = new Map<GpuId, { readonly executor: ActorKey; readonly state: GpuState }>();
  readonly #offers = new Map<ThreadId, { readonly candidate: Candidate; readonly batcher: ActorKey }>();
  /** Executors that have not answered yet. */
  readonly #awaited = new Set<ActorKey>();
  #epoch = NOBODYS;
  #until: Instant = ALWAYS;
  #onHeard: () => void = () => undefined;

  constructor(options: StandbyStateOptions) {
    this.#options = options;
  }

  /**
   * Begins to collect: the lease of a leader with that epoch is asked for, or will be. While the others go on sending,
   * they aren't asked again.
   *
   * @param onHeard - called when all executors of the sub-cluster have answered
   */
  begin(epoch: number, onHeard: () => void = () => undefined): void {
    const { runtime, clock, own, key, subCluster } = this.#options;
    this.#onHeard = onHeard;
    if (epoch > 0 && this.holds(epoch)) {
      if (this.#awaited.size === 0) onHeard();
      return;
    }
    this.#gpus.clear();
    this.#offers.clear();
    this.#awaited.clear();
    this.#epoch = epoch > 0 ? epoch : NOBODYS;
    if (epoch === 0) return;
    this.#until = after(clock.now(), LEAD_EXPECTED_FOR);
    for (const peer of runtime.registry.ofRole("executor")) if (own.has(peer)) this.#awaited.add(peer.key);
    for (const role of ["executor", "batcher"] as const)
      runtime.broadcast(role, LeadExpected, { key, epoch, subCluster });
    if (this.#awaited.size === 0) onHeard();
  }

  /** Whether messages under that epoch are sent to us as well as to its leader. */
  holds(epoch: number): boolean {
    return epoch === this.#epoch && this.#options.clock.now() <= this.#until;
  }

  /** Present states of all accelerators of an executor, from its answer or a heartbeat. */
  joined(executor: ActorKey, gpus: readonly GpuState[]): void {
    for (const state of gpus) {
      const known = this.#gpus.get(state.gpu);
      if (state.subCluster !== this.#options.subCluster) {
        if (known?.executor === executor) this.#gpus.delete(state.gpu);
        // T7
      } else if (known !== undefined || this.#gpus.size < GPUS_MAX) this.#gpus.set(state.gpu, { executor, state });
    }
    this.#heard(executor);
  }

  freed({ gpu, freeAt, grantSeq }: GpuFreed, executor: ActorKey): void {
    const known = this.#gpus.get(gpu);
    if (known?.executor !== executor || grantSeq < known.state.grantSeq) return;
    this.#gpus.set(gpu, { executor, state: { ...known.state, freeAt, grantSeq } });
  }

  offered(candidate: Candidate, batcher: ActorKey): void {
    if (!this.holds(this.#epoch)) return;
    const known = this.#offers.get(candidate.thread)?.candidate;
    if (known === undefined ? this.#offers.size >= THREADS_MAX : isNewer(known, candidate)) return; // T7
    this.#offers.set(candidate.thread, { candidate, batcher });
  }

  /** The peer is gone, and nothing can be granted to it. */
  forget(peer: ActorKey): void {
    for (const [gpu, { executor }] of this.#gpus) if (executor === peer) this.#gpus.delete(gpu);
    for (const [thread, { batcher }] of this.#offers) if (batcher === peer) this.#offers.delete(thread);
    this.#heard(peer);
  }

  /** Hands the state over, once, when we lead. */
  read({ onGpu, onOffer }: StandbyStateReader): void {
    if (this.holds(this.#epoch)) {
      for (const { executor, state } of this.#gpus.values()) onGpu(executor, state);
      for (const { candidate, batcher } of this.#offers.values()) onOffer(candidate, batcher);
    }
    this.#gpus.clear();
    this.#offers.clear();
  }

  #heard(peer: ActorKey): void {
    if (this.#awaited.delete(peer) && this.#awaited.size === 0) this.#onHeard();
  }
}

const isNewer = (known: Candidate, candidate: Candidate): boolean =>
  known.term > candidate.term || (known.term === candidate.term && known.offerSeq > candidate.offerSeq);
