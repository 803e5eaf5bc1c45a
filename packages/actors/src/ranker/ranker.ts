/**
 * The ranker: who leads, and what the leader's RankThread (rank-stepper.ts) is told. It has one while it leads, and
 * none while it is a spare. It knows when each accelerator is free and which candidates wait.
 *
 *   RANKER-1. Grants carry the epoch of the lease under which they were given. A deposed ranker drops its RankThread at
 *             once. One that asked for a successor grants until it hears the successor; executors hear it at the same
 *             moment, and accept only its grants from then on (T5).
 *   RANKER-2. Its state is soft: after taking the lead it is rebuilt from the messages of executors and batchers,
 *             collected from the moment at which it asks for the lease (standby-state.ts).
 *   RANKER-3. It grants only while something that it sent recently has come back (leadership-check.ts): it has then
 *             seen everything that was sent to it before, also a successor's announcement. A leader that was stopped
 *             and wakes finds out first (docs/architecture.md, 8). A server that answers nothing while the ranker is
 *             awake does not end its lead.
 *   RANKER-4. It counts only its own sub-cluster: accelerators that name it, and models that are placed in it.
 *   RANKER-5. While the server answers nothing it grants only what needs no server: accelerators and batchers that are
 *             near. Of these it hears whether they follow another leader (T5).
 */
import type { Subscription } from "@tutti/ports/bus";
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
import type { Candidate } from "@tutti/scheduling";
import { type ActorKey, type Instant, type Micros, micros, millis, modelNumberOf } from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../runtime/ports.ts";
import { PlacementWatcher } from "../runtime/placement-watcher.ts";
import { plausible } from "../runtime/plausible.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { StandbyState } from "./standby-state.ts";
import { LeaderStepDown } from "./leader-step-down.ts";
import { LeaderFailureDetector } from "./leader-failure-detector.ts";
import { LeaderActivity } from "./leader-activity.ts";
import { LeaseHolder } from "./lease-holder.ts";
import { RankStepper } from "./rank-stepper.ts";
import { SubClusterPeers } from "./sub-cluster-peers.ts";
import { WarmupSchedule } from "./warm-up/warmup-schedule.ts";

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
  readonly #standbyState: StandbyState;
  readonly #stepDown: LeaderStepDown;
  readonly #placement: PlacementWatcher;
  readonly #reconnecting: Subscription;
  readonly #warmups: WarmupSchedule;
  readonly #rank: RankStepper;
  /** Work of the leader, as seen by a spare. */
  readonly #work: LeaderActivity;
  readonly #plausible = plausible(() => this.#now());
  #takeovers = 0;

  constructor(ports: ActorPorts, config: RankerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#work = new LeaderActivity(ports.clock.now());
    this.#stepDown = this.#createLeaderStepDown();
    this.#runtime = new ActorRuntime(ports, config, {
      role: "ranker",
      listensTo: ["executor", "batcher", "ranker"],
      // The leader informs the batchers of lost executors.
      probes: (peer) => (peer.role === "ranker" || this.#rank.leads) && this.#own.has(peer),
      beat: () => ({
        epoch: this.#lease.epoch,
        subCluster: config.subCluster,
        grants: this.#rank.grantsTotal,
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
    this.#rank = new RankStepper({
      ...{ self: config.key, runtime: this.#runtime, clock: ports.clock, ctrlFloor: config.ctrlFloor },
      isPlausible: this.#plausible.freed,
      stepDown: this.#stepDown,
    });
    this.#listen();
    this.#warmups = new WarmupSchedule(ports.clock, config.warmUpEvery, {
      subCluster: config.subCluster,
      isDue: () => !this.#rank.leads,
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

  #createLeaderStepDown(): LeaderStepDown {
    return new LeaderStepDown({
      clock: this.#ports.clock,
      leads: () => this.#rank.leads,
      hasSpare: () => this.#own.hasRankers,
      onYield: () => this.#runtime.beat(),
      onOver: () => this.#rank.hold(),
      isOwed: () => this.#rank.isOwed,
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
        if (!this.#stepDown.yields) this.#rank.rest();
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
    this.#rank.close();
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
    this.#runtime.onPlausible(GrantAnswered, this.#plausible.answer, (answer) => this.#rank.answered(answer));
    reader.on(LeaderAsked, (asked, sender) => this.#onAsked(asked, sender));
    reader.on(LeaderAnswered, ({ epoch }, sender) => {
      if (sender === this.#lease.leader?.key) this.#detector.answered(epoch);
    });
    this.#runtime.onPlausible(GpuFreed, this.#plausible.freed, (freed, sender) => {
      if (!this.#isForUs(freed.epoch)) return;
      if (this.#rank.leads) this.#rank.freed(sender, freed);
      else this.#standbyState.freed(freed, sender);
    });
    this.#runtime.onPacked(GpuJoined, ({ executor, epoch, gpus }, sender) => {
      if (sender !== executor || !this.#isForUs(epoch)) return;
      if (!this.#rank.leads) return this.#standbyState.joined(executor, gpus);
      for (const gpu of gpus) if (gpu.subCluster === this.#config.subCluster) this.#rank.gpus.reported(executor, gpu);
    });
  }

  /**
   * Whether a message to the leader with that epoch is for us. It is if we lead, or if we ask to succeed that leader.
   */
  #isForUs(epoch: number): boolean {
    if (!this.#rank.leads) return this.#standbyState.holds(epoch);
    return epoch === this.#rank.epoch || (this.#rank.epoch === this.#lease.epoch && this.#standbyState.holds(epoch));
  }

  #onAsked({ epoch, sentAt }: LeaderAsked, sender: ActorKey): void {
    if (epoch !== this.#rank.epoch) return;
    if (sender !== this.key) return this.#runtime.send(sender, LeaderAnswered, { epoch, sentAt }, "upkeep");
    if (!this.#rank.leads) return this.#warmups.echoed();
    this.#rank.cameBack(sentAt);
  }

  #offer(candidate: Candidate, batcher: ActorKey): void {
    if (this.#rank.leads) this.#rank.offered(candidate, batcher);
    else this.#standbyState.offered(candidate, batcher);
  }

  #lead(epoch: number): void {
    this.#takeovers++;
    this.#rank.begin(epoch);
    const announcement = { key: this.key, epoch, subCluster: this.#config.subCluster };
    this.#runtime.broadcast("executor", RankerAnnounced, announcement);
    this.#runtime.broadcast("batcher", RankerAnnounced, announcement);
    this.#runtime.beat();
    // After the announcement, so that the receivers of grants know the new leader.
    this.#standbyState.read({
      onGpu: (executor, gpu) => this.#rank.gpus.reported(executor, gpu),
      onOffer: (candidate, batcher) => this.#offer(candidate, batcher),
    });
  }

  #onBeat(peer: Heartbeat): void {
    if (peer.role === "ranker") this.#onRankerBeat(peer);
    if (!this.#rank.leads) return this.#onBeatOfSpare(peer);
    for (const number of peer.stalled ?? []) this.#rank.modelStalled(number);
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
        if (this.#rank.gpus.isDrivenBy(gpu.gpu, peer.key)) this.#rank.gpus.leave(gpu.gpu, peer.key);
        continue;
      }
      const { epoch } = this.#rank;
      if (gpu.epoch > epoch) return this.#lease.outranked(gpu.epoch);
      if (gpu.epoch < epoch)
        this.#runtime.send(peer.key, RankerAnnounced, { key: this.key, epoch, subCluster: this.#config.subCluster });
      else this.#rank.gpus.reported(peer.key, gpu);
    }
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
      const lost = this.#rank.gpus.lost(peer.key);
      if (this.#rank.leads && (lost.length > 0 || this.#own.has(peer)))
        this.#runtime.broadcast("batcher", ExecutorLost, { executor: peer.key, gpus: lost, epoch: this.#rank.epoch });
    } else if (peer.role === "batcher") this.#rank.batcherLeft(peer.key);
  }

  #stats() {
    return { figures: { epoch: this.#lease.epoch, takeovers: this.#takeovers, ...this.#rank.figures() } };
  }
}
