/**
 * The ranker: one RankThread while it leads, none while it is a spare. It knows when each accelerator is free and which candidates wait.
 *
 *   R1. Grants carry the epoch of the lease under which they were given; a deposed ranker drops its RankThread at once (T5).
 *   R2. Its state is soft: after taking the lead it is rebuilt from what executors and batchers say.
 *   R3. It grants only while something that it sent within PROOF_AGE has come back: all that was sent to it before that, a successor's announcement too,
 *       it has then seen. A leader that was stopped and wakes finds out first (docs/architecture.md, 8).
 */
import type { Subscription } from "@tutti/bus";
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
  LeaderAnswered,
  LeaderAsked,
  MODELS_MAX,
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
  ALWAYS,
  type ActorKey,
  BUCKETS_MAX,
  GPUS_MAX,
  type GpuId,
  type Instant,
  type Micros,
  NEVER,
  type ThreadId,
  after,
  before,
  between,
  later,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { LeaderVigil } from "./leader-vigil.ts";
import { LeaseHolder } from "./lease-holder.ts";

export interface RankerConfig extends ActorConfig {
  readonly subCluster: string;
  /** How often the spare that is first in line pings a leader that grants. */
  readonly pingEvery: Micros;
  /** Lower bound of d_ctrl, from which a grant's validity is reckoned. */
  readonly ctrlFloor: Micros;
}

export function createRanker(ports: ActorPorts, config: RankerConfig, ready: () => void): Actor {
  return new Ranker(ports, config, ready);
}

/** R3. */
const PROOF_AGE = millis(25);
/** A question to ourselves that does not come back is sent again. */
const PROVE_AGAIN = millis(5);
/** So long after its last grant a leader counts as idle. */
const BUSY_FOR = seconds(1);
/** What is granted when we leave is answered within this, as a rule; what is not is repaired as if we had died. */
const LEAVE_WITHIN = millis(2);
const LEASE_RETRY_EVERY = millis(20);
const THREADS_MAX = MODELS_MAX * BUCKETS_MAX;

class Ranker implements Actor, RankEffects {
  readonly role = "ranker" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: RankerConfig;
  readonly #station: Station;
  readonly #lease: LeaseHolder;
  readonly #vigil: LeaderVigil;
  readonly #reconnecting: Subscription;
  readonly #alarm: Alarm;
  readonly #retuning: Stop;
  readonly #roundTrip: DelayEstimator;
  /** Who drives each accelerator that may be granted. */
  readonly #gpus = new Map<GpuId, ActorKey>();
  /** Which batcher offers for a thread, and who was asked for a grant's answer. */
  readonly #batchers = new Map<ThreadId, { readonly batcher: ActorKey; readonly term: number }>();
  readonly #granted = new Map<GpuId, { readonly grantSeq: number; readonly sentAt: Instant }>();
  #rank: RankThread | undefined;
  /** R3: when the newest that came back was sent. */
  #provenAt: Instant = ALWAYS;
  #provingAt: Instant = ALWAYS;
  /** As a spare: the leader's grants that we know of, and until when it counts as busy. */
  #leaderGrants = -1;
  #busyUntil: Instant = ALWAYS;
  /** Called when no grant is in flight any more. */
  #leaving: (() => void) | undefined;
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
      // The leader tells the batchers of lost executors.
      probes: ({ role }) =>
        role === "ranker" || (this.#rank !== undefined && (role === "executor" || role === "batcher")),
      beat: () => ({ epoch: this.#lease.epoch, grants: this.#grants }),
      stats: () => this.#stats(),
      onBeat: (peer) => this.#onBeat(peer),
      onLost: (peer) => this.#onLost(peer),
    });
    this.#lease = new LeaseHolder({
      store: ports.store,
      clock: ports.clock,
      log: this.#station.log,
      self: config.key,
      subCluster: config.subCluster,
      retryEvery: LEASE_RETRY_EVERY,
      onLead: (epoch) => this.#lead(epoch),
      onDeposed: () => this.#rest(),
    });
    this.#vigil = new LeaderVigil({
      bus: ports.bus,
      clock: ports.clock,
      pingEvery: config.pingEvery,
      heardWithin: micros(2 * config.heartbeatEvery),
      hangsAfter: config.peerTimeout,
      subjectOf: (key) => this.#station.subjects.alive(key),
      leader: () => this.#lease.leader,
      wasHeard: (key) => this.#station.directory.wasHeardHere(key),
      isUrgent: () => this.#now() < this.#busyUntil && this.#isFirst(),
      ask: ({ key, epoch }) => this.#station.send(key, LeaderAsked, { epoch, sentAt: this.#now() }),
      onGone: ({ key }, how) => this.#lease.suspect(key, how),
    });
    this.#reconnecting = ports.bus.onStatus(({ kind }) => {
      if (kind === "reconnected") this.#vigil.reconnected();
    });
    this.#alarm = ports.clock.alarm(() => this.#onAlarm());
    this.#listen();
    this.#retuning = ports.clock.every(millis(250), () =>
      this.#step({ kind: "ctrl-delay-changed", at: this.#now(), ctrl: this.#roundTrip.value(this.#now()) }),
    );
    this.#station.open();
    this.#lease.open(() => ports.bus.flush(() => ready()));
  }

  /** Grants nothing more, waits a moment for the answers that it is owed, and hands over: its goodbye makes a spare take the lead at once. */
  drain(done: () => void): void {
    const patience = this.#ports.clock.alarm(() => this.#leaving?.());
    this.#leaving = () => {
      this.#leaving = () => undefined;
      patience.clear();
      this.#close(done);
    };
    patience.set(after(this.#now(), LEAVE_WITHIN));
    this.#alarm.clear();
    this.#leaveIfUnowed();
  }

  #close(done: () => void): void {
    this.#lease.close();
    this.#vigil.stop();
    this.#reconnecting.stop();
    this.#retuning.stop();
    this.#rest();
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
      const granted = this.#granted.get(answer.gpu);
      if (granted?.grantSeq === answer.grantSeq) {
        this.#roundTrip.note(at, between(granted.sentAt, at));
        this.#provenAt = later(this.#provenAt, granted.sentAt);
      }
      this.#step({ kind: "grant-answered", at, ...answer });
    });
    reader.on(LeaderAsked, (asked, sender) => this.#onAsked(asked, sender));
    reader.on(LeaderAnswered, ({ epoch }, sender) => {
      if (sender === this.#lease.leader?.key) this.#vigil.answered(epoch);
    });
    reader.on(GpuFreed, (freed, sender) => {
      if (freed.epoch === this.#lease.epoch && this.#gpus.get(freed.gpu) === sender)
        this.#step({ kind: "gpu-freed", at: this.#now(), ...freed });
    });
    this.#station.onPacked(GpuJoined, wellFormed.gpuJoined, ({ executor, epoch, gpus }, sender) => {
      if (sender === executor && epoch === this.#lease.epoch) for (const gpu of gpus) this.#onGpu(executor, gpu);
    });
  }

  /** Of the living spares the one with the least key. */
  #isFirst(): boolean {
    for (const { key } of this.#station.directory.ofRole("ranker"))
      if (key < this.key && key !== this.#lease.leader?.key) return false;
    return true;
  }

  #onAsked({ epoch, sentAt }: LeaderAsked, sender: ActorKey): void {
    if (epoch !== this.#lease.epoch) return;
    if (sender !== this.key) return this.#station.send(sender, LeaderAnswered, { epoch, sentAt });
    this.#provenAt = later(this.#provenAt, sentAt);
    this.#onAlarm();
  }

  /** R3. */
  #onAlarm(): void {
    this.#armedFor = NEVER;
    if (this.#rank === undefined) return;
    const now = this.#now();
    if (this.#provenAt >= before(now, PROOF_AGE)) return this.#step({ kind: "clock-reached", at: now });
    this.#prove(now);
    this.#alarm.set(after(now, PROVE_AGAIN));
  }
  #prove(now: Instant): void {
    if (this.#provingAt > before(now, PROVE_AGAIN)) return;
    this.#provingAt = now;
    this.#station.send(this.key, LeaderAsked, { epoch: this.#lease.epoch, sentAt: now });
  }

  #offer(candidate: CandidateOffered, batcher: ActorKey): void {
    const now = this.#now();
    // By the time that this candidate is due, the answer is here.
    if (this.#rank !== undefined && this.#provenAt < before(now, micros(PROOF_AGE / 2))) this.#prove(now);
    // A batcher that lost the lease may still be talking.
    if (candidate.term < (this.#batchers.get(candidate.thread)?.term ?? 0)) return;
    if (this.#batchers.size >= THREADS_MAX && !this.#batchers.has(candidate.thread)) return; // T7
    this.#batchers.set(candidate.thread, { batcher, term: candidate.term });
    this.#step({ kind: "candidate-offered", at: now, candidate });
  }

  #lead(epoch: number): void {
    this.#takeovers++;
    this.#rest();
    this.#provenAt = this.#now();
    this.#rank = createRankThread({ epoch, ctrl: this.#roundTrip.value(this.#now()), gpusMax: GPUS_MAX });
    const announcement = { key: this.key, epoch, subCluster: this.#config.subCluster };
    this.#station.broadcast("executor", RankerAnnounced, announcement);
    this.#station.broadcast("batcher", RankerAnnounced, announcement);
    this.#station.beat();
  }

  #rest(): void {
    this.#rank = undefined;
    this.#gpus.clear();
    this.#granted.clear();
    this.#alarm.clear();
    this.#armedFor = NEVER;
  }

  #onBeat(peer: Heartbeat): void {
    if (peer.role === "ranker") this.#onRankerBeat(peer);
    if (this.#rank === undefined) return;
    for (const candidate of peer.offers ?? []) this.#offer(candidate, peer.key);
    if (peer.role !== "executor") return;
    // A joining that was lost on the way is repaired by the heartbeat; one that obeys an older leader will answer the announcement.
    for (const gpu of peer.gpus ?? []) {
      if (gpu.epoch > this.#lease.epoch) return this.#lease.outranked(gpu.epoch);
      if (gpu.epoch < this.#lease.epoch)
        this.#station.send(peer.key, RankerAnnounced, {
          key: this.key,
          epoch: this.#lease.epoch,
          subCluster: this.#config.subCluster,
        });
      else this.#onGpu(peer.key, gpu);
    }
  }

  #onRankerBeat({ key, epoch, grants }: Heartbeat): void {
    const { leader } = this.#lease;
    if (key !== leader?.key || epoch !== leader.epoch) return;
    this.#lease.heard(key);
    if (grants === this.#leaderGrants) return;
    this.#leaderGrants = grants ?? -1;
    this.#busyUntil = after(this.#now(), BUSY_FOR);
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
    if (peer.role === "ranker") this.#lease.suspect(peer.key, "lost");
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
    if (this.#rank === undefined || (this.#leaving !== undefined && event.kind === "clock-reached")) return;
    stepRank(this.#rank, event, this);
    if (this.#leaving !== undefined) return this.#leaveIfUnowed();
    const next = nextRankWakeAt(this.#rank);
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }

  #leaveIfUnowed(): void {
    if (this.#rank === undefined || this.#rank.accelerators.timers.size === 0) this.#leaving?.();
  }

  #stats() {
    return {
      figures: {
        epoch: this.#lease.epoch,
        gpus: this.#gpus.size,
        grants: this.#grants,
        expired: this.#expired,
        takeovers: this.#takeovers,
        ctrlUs: this.#roundTrip.value(this.#now()),
      },
    };
  }

  grant(grant: Grant): void {
    const batcher = this.#batchers.get(grant.thread)?.batcher;
    if (batcher === undefined) return; // Its batcher died in between: validUntil gives the accelerator back.
    this.#grants++;
    this.#granted.set(grant.gpu, { grantSeq: grant.grantSeq, sentAt: grant.sentAt });
    this.#station.send(batcher, GpuGranted, grant);
  }

  askGpu(gpu: GpuId, executor: ActorKey, grantSeq: number): void {
    this.#expired++;
    this.#station.send(executor, GpuAsked, { gpu, epoch: this.#lease.epoch, grantSeq });
  }
}
