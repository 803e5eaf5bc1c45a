/**
 * The ranker: one RankThread while it leads, none while it is a spare. It knows when each accelerator is free and which
 * candidates wait.
 *
 *   RANKER-1. Grants carry the epoch of the lease under which they were given. A deposed ranker drops its RankThread at
 *             once. One that asked for a successor grants until it hears the successor; executors hear it at the same
 *             moment, and accept only its grants from then on (T5).
 *   RANKER-2. Its state is soft: after taking the lead it is rebuilt from the messages of executors and batchers,
 *             collected from the moment at which it asks for the lease (standby-state.ts).
 *   RANKER-3. It grants only while something that it sent recently has come back (leadership-check.ts): it has then
 *             seen everything that was sent to it before, also a successor's announcement. A leader that was stopped
 *             and wakes finds out first (docs/architecture.md, 8).
 *   RANKER-4. It counts only its own sub-cluster: accelerators that name it, and models that are placed in it.
 */
import type { Subscription } from "@tutti/ports/bus";
import type { Alarm, Stop } from "@tutti/ports/clock";
import {
  CandidateOffered,
  ExecutorLost,
  GpuFreed,
  GpuJoined,
  GrantAnswered,
  type Heartbeat,
  JobOffered,
  LeaderAnswered,
  LeaderAsked,
  RankerAnnounced,
} from "@tutti/protocol";
import { DelayEstimator } from "@tutti/profile";
import {
  type Candidate,
  type RankEvent,
  type RankThread,
  createRankThread,
  nextRankWakeAt,
  stepRank,
} from "@tutti/scheduling";
import {
  type ActorKey,
  GPUS_MAX,
  type Instant,
  type Micros,
  NEVER,
  type ThreadId,
  after,
  between,
  earlier,
  micros,
  millis,
  modelNumberOf,
  seconds,
} from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../runtime/ports.ts";
import { PlacementWatcher } from "../runtime/placement-watcher.ts";
import { plausible } from "../runtime/plausible.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { StandbyState } from "./standby-state.ts";
import { LeaderStepDown } from "./leader-step-down.ts";
import { IdleTimeBroker } from "./idle-time-broker.ts";
import { LeaderFailureDetector } from "./leader-failure-detector.ts";
import { LeaderActivity } from "./leader-activity.ts";
import { LeaseHolder } from "./lease-holder.ts";
import { CandidateOwners } from "./candidate-owners.ts";
import { SubClusterPeers } from "./sub-cluster-peers.ts";
import { PROVE_AGAIN, LeadershipCheck } from "./leadership-check.ts";
import { WarmupSchedule } from "./warm-up/warmup-schedule.ts";
import { GrantSender } from "./grant-sender.ts";
import { RankedAccelerators } from "./ranked-accelerators.ts";

export interface RankerConfig extends ActorConfig {
  readonly subCluster: string;
  /** How often the spare that is first in line pings a leader that grants. */
  readonly pingEvery: Micros;
  /** Lower bound of d_ctrl, from which a grant's validity is computed. */
  readonly ctrlFloor: Micros;
  /** Interval of a spare's warm-ups (warm-up/). Default: none, as in virtual time. */
  readonly warmUpEvery?: Micros | undefined;
}

export function createRanker(ports: ActorPorts, config: RankerConfig, ready: () => void): Actor {
  return new Ranker(ports, config, ready);
}

const LEASE_RETRY_EVERY = millis(20);

class Ranker implements Actor {
  readonly role = "ranker" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: RankerConfig;
  readonly #runtime: ActorRuntime;
  readonly #lease: LeaseHolder;
  readonly #own: SubClusterPeers;
  readonly #detector: LeaderFailureDetector;
  readonly #idle: IdleTimeBroker;
  readonly #standbyState: StandbyState;
  readonly #stepDown: LeaderStepDown;
  readonly #placement: PlacementWatcher;
  readonly #reconnecting: Subscription;
  readonly #alarm: Alarm;
  readonly #retuning: Stop;
  readonly #warmups: WarmupSchedule;
  readonly #roundTrip: DelayEstimator;
  readonly #leadershipCheck = new LeadershipCheck((now) =>
    this.#runtime.send(this.key, LeaderAsked, { epoch: this.#epoch, sentAt: now }),
  );
  readonly #gpus: RankedAccelerators;
  readonly #candidateOwners = new CandidateOwners();
  readonly #grants: GrantSender;
  #rank: RankThread | undefined;
  /** Work of the leader, as seen by a spare. */
  readonly #work: LeaderActivity;
  readonly #plausible = plausible(() => this.#now());
  #armedFor: Instant = NEVER;
  #takeovers = 0;

  constructor(ports: ActorPorts, config: RankerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#roundTrip = new DelayEstimator({ floor: config.ctrlFloor, quantile: 0.99, window: seconds(10), capTimes: 5 });
    this.#work = new LeaderActivity(ports.clock.now());
    this.#stepDown = this.#createLeaderStepDown();
    this.#runtime = new ActorRuntime(ports, config, {
      role: "ranker",
      listensTo: ["executor", "batcher", "ranker"],
      // The leader informs the batchers of lost executors.
      probes: (peer) => (peer.role === "ranker" || this.#rank !== undefined) && this.#own.has(peer),
      beat: () => ({
        epoch: this.#lease.epoch,
        subCluster: config.subCluster,
        grants: this.#grants.total,
        ...(this.#stepDown.yields && { yields: true }),
      }),
      stats: () => this.#stats(),
      onBeat: (peer) => this.#onBeat(peer),
      onLost: (peer) => this.#onLost(peer),
    });
    this.#own = new SubClusterPeers(this.#runtime, config);
    this.#standbyState = new StandbyState({ ...config, own: this.#own, runtime: this.#runtime, clock: ports.clock });
    this.#placement = new PlacementWatcher(ports.store, this.#runtime.log);
    this.#lease = this.#createLease();
    this.#detector = this.#watchLeader();
    this.#reconnecting = ports.bus.onStatus(({ kind }) => {
      if (kind !== "reconnected") return;
      this.#detector.reconnected();
      this.#lease.reconnected();
    });
    this.#alarm = ports.clock.alarm(() => this.#onAlarm());
    this.#idle = new IdleTimeBroker({
      runtime: this.#runtime,
      clock: ports.clock,
      leading: () => (this.#stepDown.isOver ? undefined : this.#rank),
      onGiven: () => this.#rearm(),
    });
    this.#gpus = this.#createAccelerators();
    this.#grants = this.#createGrants();
    this.#listen();
    this.#retuning = ports.clock.every(millis(250), () =>
      this.#step({ kind: "ctrl-delay-changed", at: this.#now(), ctrl: this.#roundTrip.value(this.#now()) }),
    );
    this.#warmups = new WarmupSchedule(ports.clock, config.warmUpEvery, {
      subCluster: config.subCluster,
      isDue: () => this.#rank === undefined,
      create: (ports, actor, done) => new Ranker(ports, { ...config, ...actor, warmUpEvery: undefined }, done),
      ask: () => this.#lease.warmUp(),
      echo: () => this.#runtime.send(this.key, LeaderAsked, { epoch: 0, sentAt: this.#now() }),
    });
    this.#runtime.open();
    this.#placement.open(() =>
      this.#lease.open(() => {
        this.#warmups.opened(() => ports.bus.flush(() => ready()));
      }),
    );
  }

  drain(done: () => void): void {
    this.#stepDown.begin(done);
  }

  #createAccelerators(): RankedAccelerators {
    return new RankedAccelerators({
      clock: this.#ports.clock,
      isPlausible: this.#plausible.freed,
      leading: () => this.#rank,
      step: (event) => this.#step(event),
      onLeft: (gpu) => this.#idle.forget(gpu),
    });
  }

  #createGrants(): GrantSender {
    return new GrantSender({
      runtime: this.#runtime,
      batcherOf: (thread) => this.#candidateOwners.of(thread),
      epoch: () => this.#epoch,
      onGrant: (grant) => {
        if (this.#rank !== undefined) this.#idle.granted(this.#rank, grant);
      },
    });
  }

  #createLeaderStepDown(): LeaderStepDown {
    return new LeaderStepDown({
      clock: this.#ports.clock,
      leads: () => this.#rank !== undefined,
      hasSpare: () => this.#own.hasRankers,
      onYield: () => this.#runtime.beat(),
      onOver: () => this.#alarm.clear(),
      isOwed: () => (this.#rank?.accelerators.timers.size ?? 0) > 0,
      leave: (left) => this.#close(left),
    });
  }

  #createLease(): LeaseHolder {
    const { store, clock, telemetry } = this.#ports;
    const { key, subCluster } = this.#config;
    return new LeaseHolder({
      ...{ store, clock, subCluster },
      log: this.#runtime.log,
      tracer: telemetry.tracer,
      self: key,
      retryEvery: LEASE_RETRY_EVERY,
      isFirst: () => this.#own.isFirstSpare(this.#lease.leader?.key),
      onAsk: (epoch) => this.#standbyState.begin(epoch),
      prepare: (epoch, prepared) => this.#standbyState.begin(epoch, prepared),
      onLead: (epoch) => this.#lead(epoch),
      onDeposed: () => {
        if (!this.#stepDown.yields) this.#rest();
        this.#stepDown.deposed();
      },
    });
  }

  #watchLeader(): LeaderFailureDetector {
    const { bus, clock, processLives } = this.#ports;
    const { pingEvery, heartbeatEvery, idleHeartbeatEvery = heartbeatEvery, peerTimeout } = this.#config;
    return new LeaderFailureDetector({
      ...{ bus, clock, pingEvery },
      heardWithin: micros(2 * idleHeartbeatEvery),
      hangsAfter: peerTimeout,
      subjectOf: (key) => this.#runtime.subjects.alive(key),
      leader: () => this.#lease.leader,
      wasHeard: (key) => this.#runtime.registry.wasHeardHere(key),
      stalledUs: () => this.#runtime.stallDetector.stalledUs,
      isUrgent: () => this.#work.isThere(this.#now()) && this.#own.isFirstSpare(this.#lease.leader?.key),
      ...(processLives !== undefined && { lives: ({ key }) => this.#livesHere(key, processLives) }),
      ask: ({ key, epoch }) => this.#runtime.send(key, LeaderAsked, { epoch, sentAt: this.#now() }, "upkeep"),
      onGone: ({ key }, how) => this.#lease.suspect(key, how),
    });
  }

  #livesHere(leader: ActorKey, lives: (pid: number) => boolean | undefined): boolean | undefined {
    const peer = this.#runtime.registry.get(leader);
    return peer?.host === this.#config.host ? lives(peer.pid) : undefined;
  }

  #close(done: () => void): void {
    this.#warmups.stop();
    this.#lease.close();
    this.#placement.close();
    this.#detector.stop();
    this.#reconnecting.stop();
    this.#retuning.stop();
    this.#rest();
    this.#runtime.close(done);
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }

  #listen(): void {
    const { reader } = this.#runtime;
    this.#runtime.onPlausible(CandidateOffered, this.#plausible.candidate, (candidate, sender) =>
      this.#offer(candidate, sender),
    );
    this.#runtime.onPlausible(JobOffered, this.#plausible.jobs, (jobs, sender) => this.#offer(jobs, sender));
    this.#runtime.onPlausible(GrantAnswered, this.#plausible.answer, (answer) => {
      if (answer.epoch !== this.#epoch) return;
      const at = this.#now();
      const sentAt = this.#grants.sentAtOf(answer);
      if (sentAt !== undefined) {
        this.#roundTrip.note(at, between(sentAt, at));
        this.#leadershipCheck.cameBack(sentAt);
      }
      this.#step({ kind: "grant-answered", at, ...answer });
    });
    reader.on(LeaderAsked, (asked, sender) => this.#onAsked(asked, sender));
    reader.on(LeaderAnswered, ({ epoch }, sender) => {
      if (sender === this.#lease.leader?.key) this.#detector.answered(epoch);
    });
    this.#runtime.onPlausible(GpuFreed, this.#plausible.freed, (freed, sender) => {
      if (!this.#isForUs(freed.epoch)) return;
      if (this.#rank === undefined) this.#standbyState.freed(freed, sender);
      else if (freed.executor === sender) this.#gpus.freed(sender, freed);
    });
    this.#runtime.onPacked(GpuJoined, ({ executor, epoch, gpus }, sender) => {
      if (sender !== executor || !this.#isForUs(epoch)) return;
      if (this.#rank === undefined) return this.#standbyState.joined(executor, gpus);
      for (const gpu of gpus) if (gpu.subCluster === this.#config.subCluster) this.#gpus.reported(executor, gpu);
    });
  }

  /**
   * Whether a message to the leader with that epoch is for us. It is if we lead, or if we ask to succeed that leader.
   */
  #isForUs(epoch: number): boolean {
    if (this.#rank === undefined) return this.#standbyState.holds(epoch);
    return epoch === this.#epoch || (this.#epoch === this.#lease.epoch && this.#standbyState.holds(epoch));
  }

  /**
   * The epoch under which we grant, that of the lease. If we asked for a successor, it is the one that we had, until
   * the successor is heard (RANKER-1).
   */
  get #epoch(): number {
    return this.#rank?.epoch ?? 0;
  }

  #onAsked({ epoch, sentAt }: LeaderAsked, sender: ActorKey): void {
    if (epoch !== this.#epoch) return;
    if (sender !== this.key) return this.#runtime.send(sender, LeaderAnswered, { epoch, sentAt }, "upkeep");
    if (this.#rank === undefined) return this.#warmups.echoed();
    this.#leadershipCheck.cameBack(earlier(sentAt, this.#now()));
    this.#onAlarm();
  }

  /** RANKER-3. */
  #onAlarm(): void {
    this.#armedFor = NEVER;
    if (this.#rank === undefined) return;
    const now = this.#now();
    if (this.#leadershipCheck.holds(now)) return this.#step({ kind: "clock-reached", at: now });
    this.#leadershipCheck.ask(now);
    this.#alarm.set(after(now, PROVE_AGAIN));
  }

  #offer(candidate: Candidate, batcher: ActorKey): void {
    if (this.#rank === undefined) return this.#standbyState.offered(candidate, batcher);
    const now = this.#now();
    this.#leadershipCheck.refresh(now); // the answer is here by the time that this candidate is due
    if (this.#candidateOwners.note(candidate, batcher)) this.#step({ kind: "candidate-offered", at: now, candidate });
  }

  #lead(epoch: number): void {
    this.#takeovers++;
    this.#rest();
    this.#leadershipCheck.begin(this.#now());
    this.#rank = createRankThread({ epoch, ctrl: this.#roundTrip.value(this.#now()), gpusMax: GPUS_MAX });
    const announcement = { key: this.key, epoch, subCluster: this.#config.subCluster };
    this.#runtime.broadcast("executor", RankerAnnounced, announcement);
    this.#runtime.broadcast("batcher", RankerAnnounced, announcement);
    this.#runtime.beat();
    // After the announcement, so that the receivers of grants know the new leader.
    this.#standbyState.read({
      onGpu: (executor, gpu) => this.#gpus.reported(executor, gpu),
      onOffer: (candidate, batcher) => this.#offer(candidate, batcher),
    });
  }

  #rest(): void {
    this.#rank = undefined;
    this.#gpus.clear();
    this.#grants.clear();
    this.#alarm.clear();
    this.#armedFor = NEVER;
  }

  #onBeat(peer: Heartbeat): void {
    if (peer.role === "ranker") this.#onRankerBeat(peer);
    if (this.#rank === undefined) return this.#onBeatOfSpare(peer);
    for (const number of peer.stalled ?? []) this.#forgetOffers(this.#candidateOwners.forget(number));
    // Heartbeats go to every leader. An offer sent to us directly counts even if we have not seen the placement yet.
    const isHere = ({ thread }: Candidate): boolean =>
      this.#placement.subClusterOf(modelNumberOf(thread)) === this.#config.subCluster;
    for (const { unfit = [], ...offer } of peer.offers ?? []) {
      const candidate = { ...offer, unfit };
      if (this.#plausible.candidate(candidate) && isHere(candidate)) this.#offer(candidate, peer.key);
    }
    for (const { unfit = [], ...offer } of peer.jobOffers ?? []) {
      const jobs = { ...offer, unfit };
      if (this.#plausible.jobs(jobs) && isHere(jobs)) this.#offer(jobs, peer.key);
    }
    if (peer.role !== "executor") return;
    // The heartbeat repairs a joining that was lost on the way. An executor that accepts an older leader will answer
    // the announcement.
    for (const gpu of peer.gpus ?? []) {
      if (gpu.subCluster !== this.#config.subCluster) {
        if (this.#gpus.isDrivenBy(gpu.gpu, peer.key)) this.#gpus.leave(gpu.gpu, peer.key);
        continue;
      }
      const epoch = this.#epoch;
      if (gpu.epoch > epoch) return this.#lease.outranked(gpu.epoch);
      if (gpu.epoch < epoch)
        this.#runtime.send(peer.key, RankerAnnounced, { key: this.key, epoch, subCluster: this.#config.subCluster });
      else this.#gpus.reported(peer.key, gpu);
    }
  }

  #forgetOffers(threads: readonly ThreadId[]): void {
    for (const thread of threads) this.#step({ kind: "model-gone", at: this.#now(), thread });
  }

  /** Updates the collected state between an executor's answer and our lead, so that it needs no repair afterwards. */
  #onBeatOfSpare({ key, gpus = [] }: Heartbeat): void {
    if (gpus.length > 0 && gpus.every(({ epoch }) => this.#standbyState.holds(epoch)))
      this.#standbyState.joined(key, gpus);
  }

  #onRankerBeat({ key, epoch, grants, yields }: Heartbeat): void {
    const { leader } = this.#lease;
    if (key !== leader?.key || epoch !== leader.epoch) return;
    if (yields) return this.#lease.suspect(key, "yields");
    this.#lease.heard(key);
    this.#stepDown.successorLeads();
    this.#work.heard(grants ?? 0, this.#now());
  }

  #onLost(peer: Heartbeat): void {
    this.#standbyState.forget(peer.key);
    if (peer.role === "ranker") this.#lease.suspect(peer.key, "lost");
    else if (peer.role === "executor") {
      const lost = this.#gpus.lost(peer.key);
      if (this.#rank !== undefined && (lost.length > 0 || this.#own.has(peer)))
        this.#runtime.broadcast("batcher", ExecutorLost, { executor: peer.key, gpus: lost, epoch: this.#epoch });
    } else if (peer.role === "batcher") this.#forgetOffers(this.#candidateOwners.left(peer.key));
  }

  #step(event: RankEvent): void {
    if (this.#rank === undefined || (this.#stepDown.isOver && event.kind === "clock-reached")) return;
    stepRank(this.#rank, event, this.#grants);
    if (this.#stepDown.isOver) return this.#stepDown.leaveIfUnowed();
    this.#rearm();
  }
  #rearm(): void {
    const next = this.#rank === undefined ? NEVER : nextRankWakeAt(this.#rank);
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }

  #stats() {
    return {
      figures: {
        epoch: this.#lease.epoch,
        gpus: this.#gpus.size,
        ...this.#grants.figures(),
        takeovers: this.#takeovers,
        ctrlUs: this.#roundTrip.value(this.#now()),
        ...this.#idle.figures(),
      },
    };
  }
}
