/**
 * The ranker: one RankThread while it leads, none while it is a spare. It knows when each accelerator is free and which candidates wait.
 *
 *   R1. Grants carry the epoch of the lease under which they were given; a deposed ranker drops its RankThread at once (T5).
 *   R2. Its state is soft: after taking the lead it is rebuilt from what executors and batchers say.
 */
import type { Alarm, Stop } from "@tutti/clock";
import {
  CandidateOffered,
  ExecutorLost,
  GpuAsked,
  GpuFreed,
  GpuGranted,
  GpuJoined,
  type GpuState,
  GrantAnswered,
  type Heartbeat,
  RankerAnnounced,
} from "@tutti/protocol";
import { DelayEstimator } from "@tutti/profile";
import {
  type Grant,
  type RankEffects,
  type RankEvent,
  type RankThread,
  createRankThread,
  nextRankWakeAt,
  stepRank,
} from "@tutti/scheduling";
import {
  type ActorKey,
  GPUS_MAX,
  type GpuId,
  type Instant,
  type Micros,
  NEVER,
  type ThreadId,
  between,
  millis,
  seconds,
} from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { LeaseHolder } from "./lease-holder.ts";

export interface RankerConfig extends ActorConfig {
  readonly subCluster: string;
  readonly pingEvery: Micros;
  /** Lower bound of d_ctrl, from which a grant's validity is reckoned. */
  readonly ctrlFloor: Micros;
}

export function createRanker(ports: ActorPorts, config: RankerConfig, ready: () => void): Actor {
  return new Ranker(ports, config, ready);
}

class Ranker implements Actor, RankEffects {
  readonly role = "ranker" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: RankerConfig;
  readonly #station: Station;
  readonly #lease: LeaseHolder;
  readonly #alarm: Alarm;
  readonly #retuning: Stop;
  readonly #roundTrip: DelayEstimator;
  /** Who drives each accelerator that may be granted. */
  readonly #gpus = new Map<GpuId, ActorKey>();
  /** Which batcher offers for a thread, and who was asked for a grant's answer. */
  readonly #batchers = new Map<ThreadId, { readonly batcher: ActorKey; readonly term: number }>();
  readonly #grantedAt = new Map<GpuId, Instant>();
  #rank: RankThread | undefined;
  #armedFor: Instant = NEVER;
  #grants = 0;
  #expired = 0;
  #takeovers = 0;

  constructor(ports: ActorPorts, config: RankerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#roundTrip = new DelayEstimator({ floor: config.ctrlFloor, quantile: 0.99, window: seconds(10), capTimes: 5 });
    this.#station = new Station(ports, config, {
      role: "ranker",
      listensTo: ["executor", "batcher", "ranker"],
      // The leader tells the batchers of lost executors; spares watch the leader by its own subject.
      probes: ({ role }) => this.#rank !== undefined && (role === "executor" || role === "batcher"),
      beat: () => ({ epoch: this.#lease.epoch }),
      stats: () => ({
        figures: {
          epoch: this.#lease.epoch,
          gpus: this.#gpus.size,
          grants: this.#grants,
          expired: this.#expired,
          takeovers: this.#takeovers,
          ctrlUs: this.#roundTrip.value(ports.clock.now()),
        },
      }),
      onBeat: (peer) => this.#onBeat(peer),
      onLost: (peer) => this.#onLost(peer),
    });
    this.#lease = new LeaseHolder({
      bus: ports.bus,
      store: ports.store,
      clock: ports.clock,
      log: this.#station.log,
      self: config.key,
      subCluster: config.subCluster,
      pingSubject: this.#station.subjects.rankerPing(config.subCluster),
      pingEvery: config.pingEvery,
      onLead: (epoch) => this.#lead(epoch),
      onDeposed: () => this.#rest(),
    });
    this.#alarm = ports.clock.alarm(() => {
      this.#armedFor = NEVER;
      this.#step({ kind: "clock-reached", at: this.#now() });
    });
    this.#listen();
    this.#retuning = ports.clock.every(millis(250), () =>
      this.#step({ kind: "ctrl-delay-changed", at: this.#now(), ctrl: this.#roundTrip.value(this.#now()) }),
    );
    this.#station.open();
    this.#lease.open(() => ports.bus.flush(() => ready()));
  }

  drain(done: () => void): void {
    this.#lease.close();
    this.#retuning.stop();
    this.#rest();
    // The goodbye in the last heartbeat makes a spare take the lead without waiting for a time-out.
    this.#station.close(done);
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }

  #listen(): void {
    const { reader } = this.#station;
    reader.on(CandidateOffered, (candidate, sender) => this.#offer(candidate, sender));
    reader.on(GrantAnswered, (answer) => {
      if (answer.epoch !== this.#lease.epoch) return;
      const at = this.#now();
      const sentAt = this.#grantedAt.get(answer.gpu);
      if (sentAt !== undefined) this.#roundTrip.note(at, between(sentAt, at));
      this.#step({ kind: "grant-answered", at, ...answer });
    });
    reader.on(GpuFreed, (freed, sender) => {
      if (freed.epoch === this.#lease.epoch && this.#gpus.get(freed.gpu) === sender)
        this.#step({ kind: "gpu-freed", at: this.#now(), ...freed });
    });
    this.#station.onPacked(GpuJoined, wellFormed.gpuJoined, ({ executor, epoch, gpus }, sender) => {
      if (sender === executor && epoch === this.#lease.epoch) for (const gpu of gpus) this.#onGpu(executor, gpu);
    });
  }

  #offer(candidate: CandidateOffered, batcher: ActorKey): void {
    // A batcher that lost the lease may still be talking.
    if (candidate.term < (this.#batchers.get(candidate.thread)?.term ?? 0)) return;
    this.#batchers.set(candidate.thread, { batcher, term: candidate.term });
    this.#step({ kind: "candidate-offered", at: this.#now(), candidate });
  }

  #lead(epoch: number): void {
    this.#takeovers++;
    this.#gpus.clear();
    this.#rank = createRankThread({ epoch, ctrl: this.#roundTrip.value(this.#now()), gpusMax: GPUS_MAX });
    const announcement = { key: this.key, epoch, subCluster: this.#config.subCluster };
    this.#station.broadcast("executor", RankerAnnounced, announcement);
    this.#station.broadcast("batcher", RankerAnnounced, announcement);
    this.#station.beat();
  }

  #rest(): void {
    this.#rank = undefined;
    this.#gpus.clear();
    this.#alarm.clear();
    this.#armedFor = NEVER;
  }

  #onBeat(peer: Heartbeat): void {
    if (this.#rank === undefined) return;
    for (const candidate of peer.offers ?? []) this.#offer(candidate, peer.key);
    if (peer.role !== "executor") return;
    // A joining that was lost on the way is repaired by the heartbeat; one that obeys an older leader will answer the announcement.
    for (const gpu of peer.gpus ?? []) {
      if (gpu.epoch < this.#lease.epoch)
        this.#station.send(peer.key, RankerAnnounced, {
          key: this.key,
          epoch: this.#lease.epoch,
          subCluster: this.#config.subCluster,
        });
      else this.#onGpu(peer.key, gpu);
    }
  }

  /** What an executor says of an accelerator: there and serving, or not to be granted for now. */
  #onGpu(executor: ActorKey, state: GpuState): void {
    const { gpu } = state;
    const driver = this.#gpus.get(gpu);
    if (!state.serving) {
      if (driver === executor) this.#leave(gpu, executor);
      return;
    }
    if (driver === executor) {
      // A gpu-freed that was lost is repaired by this; one of an older grant is ignored.
      const { freeAt, grantSeq } = state;
      return this.#step({ kind: "gpu-freed", at: this.#now(), gpu, executor, freeAt, grantSeq });
    }
    if (driver !== undefined) this.#leave(gpu, driver);
    this.#gpus.set(gpu, executor);
    this.#step({ kind: "gpu-joined", at: this.#now(), gpu, executor, freeAt: state.freeAt, grantSeq: state.grantSeq });
  }

  #leave(gpu: GpuId, executor: ActorKey): void {
    this.#gpus.delete(gpu);
    this.#step({ kind: "gpu-lost", at: this.#now(), gpu, executor });
  }

  #onLost(peer: Heartbeat): void {
    if (peer.role === "ranker") this.#lease.suspect(peer.key);
    else if (peer.role === "executor") {
      const lost = [...this.#gpus].filter(([, executor]) => executor === peer.key).map(([gpu]) => gpu);
      for (const gpu of lost) this.#leave(gpu, peer.key);
      if (this.#rank !== undefined)
        this.#station.broadcast("batcher", ExecutorLost, { executor: peer.key, gpus: lost, epoch: this.#lease.epoch });
    } else if (peer.role === "batcher") {
      for (const [thread, { batcher }] of this.#batchers) {
        if (batcher !== peer.key) continue;
        this.#batchers.delete(thread);
        this.#step({ kind: "model-gone", at: this.#now(), thread });
      }
    }
  }

  #step(event: RankEvent): void {
    if (this.#rank === undefined) return;
    stepRank(this.#rank, event, this);
    const next = nextRankWakeAt(this.#rank);
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }

  grant(grant: Grant): void {
    const batcher = this.#batchers.get(grant.thread)?.batcher;
    if (batcher === undefined) return; // Its batcher died in between: validUntil gives the accelerator back.
    this.#grants++;
    this.#grantedAt.set(grant.gpu, grant.sentAt);
    this.#station.send(batcher, GpuGranted, grant);
  }

  askGpu(gpu: GpuId, executor: ActorKey, grantSeq: number): void {
    this.#expired++;
    this.#station.send(executor, GpuAsked, { gpu, epoch: this.#lease.epoch, grantSeq });
  }
}
