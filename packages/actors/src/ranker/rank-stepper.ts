/**
 * The RankThread of a ranker that leads: accelerators and candidates go in, grants come out. A spare has none, and
 * whatever it is told is ignored. It steps only while the ranker is known to lead (RANKER-3).
 */
import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import { type GpuFreed, type GrantAnswered, LeaderAsked } from "@tutti/protocol";
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
  millis,
  seconds,
} from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import type { plausible } from "../runtime/plausible.ts";
import { CandidateOwners } from "./candidate-owners.ts";
import { GrantSender } from "./grant-sender.ts";
import { IdleTimeBroker } from "./idle-time-broker.ts";
import type { LeaderStepDown } from "./leader-step-down.ts";
import { LeadershipCheck, PROVE_AGAIN } from "./leadership-check.ts";
import { RankedAccelerators } from "./ranked-accelerators.ts";

export interface RankStepperOptions {
  readonly self: ActorKey;
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  /** Lower bound of d_ctrl, from which a grant's validity is computed. */
  readonly ctrlFloor: Micros;
  readonly isPlausible: ReturnType<typeof plausible>["freed"];
  readonly stepDown: Pick<LeaderStepDown, "isOver" | "leaveIfUnowed">;
}

export class RankStepper {
  readonly gpus: RankedAccelerators;
  readonly #options: RankStepperOptions;
  readonly #owners = new CandidateOwners();
  readonly #grants: GrantSender;
  readonly #idle: IdleTimeBroker;
  readonly #leadershipCheck: LeadershipCheck;
  readonly #roundTrip: DelayEstimator;
  readonly #alarm: Alarm;
  /** Looks after a question to ourselves that is open. */
  readonly #asking: Alarm;
  readonly #retuning: Stop;
  #rank: RankThread | undefined;
  #armedFor: Instant = NEVER;

  constructor(options: RankStepperOptions) {
    const { self, runtime, clock, ctrlFloor, isPlausible, stepDown } = options;
    this.#options = options;
    this.#roundTrip = new DelayEstimator({ floor: ctrlFloor, quantile: 0.99, window: seconds(10), capTimes: 5 });
    this.#leadershipCheck = new LeadershipCheck(
      (now) => {
        runtime.send(self, LeaderAsked, { epoch: this.epoch, sentAt: now });
        this.#asking.set(after(now, PROVE_AGAIN));
      },
      () => this.#far().length === 0,
    );
    this.#alarm = clock.alarm(() => this.#onAlarm());
    this.#asking = clock.alarm(() => this.#look());
    this.#idle = new IdleTimeBroker({
      ...{ runtime, clock },
      leading: () => (stepDown.isOver ? undefined : this.#rank),
      onGiven: () => this.#rearm(),
    });
    this.gpus = new RankedAccelerators({
      ...{ clock, isPlausible },
      leading: () => this.#rank,
      step: (event) => this.#step(event),
      onLeft: (gpu) => this.#idle.forget(gpu),
    });
    this.#grants = new GrantSender({
      runtime,
      batcherOf: (thread) => this.#owners.of(thread),
      epoch: () => this.epoch,
      onGrant: (grant) => {
        if (this.#rank !== undefined) this.#idle.granted(this.#rank, grant);
      },
    });
    this.#retuning = clock.every(millis(250), () =>
      this.#step({ kind: "ctrl-delay-changed", at: this.#now(), ctrl: this.#roundTrip.value(this.#now()) }),
    );
  }

  get leads(): boolean {
    return this.#rank !== undefined;
  }
  /**
   * The epoch under which we grant, that of the lease. If we asked for a successor, it is the one that we had, until
   * the successor is heard (RANKER-1).
   */
  get epoch(): number {
    return this.#rank?.epoch ?? 0;
  }
  /** Number of all grants so far. */
  get grantsTotal(): number {
    return this.#grants.total;
  }
  /** Whether answers to grants are outstanding. */
  get isOwed(): boolean {
    return (this.#rank?.accelerators.timers.size ?? 0) > 0;
  }

  /** Leads from now on, with nothing known. */
  begin(epoch: number): void {
    this.rest();
    this.#leadershipCheck.begin(this.#now());
    this.#rank = createRankThread({ epoch, ctrl: this.#roundTrip.value(this.#now()), gpusMax: GPUS_MAX });
  }

  /** Leads no more. */
  rest(): void {
    this.#rank = undefined;
    this.gpus.clear();
    this.#grants.clear();
    this.hold();
    this.#armedFor = NEVER;
  }

  /** Grants nothing more; outstanding answers are still heard. */
  hold(): void {
    this.#alarm.clear();
    this.#asking.clear();
  }

  close(): void {
    this.#retuning.stop();
    this.rest();
  }

  offered(candidate: Candidate, batcher: ActorKey): void {
    const now = this.#now();
    this.#leadershipCheck.refresh(now); // the answer is here by the time that this candidate is due
    if (this.#owners.note(candidate, batcher)) this.#step({ kind: "candidate-offered", at: now, candidate });
  }

  freed(executor: ActorKey, freed: GpuFreed): void {
    if (freed.executor === executor) this.gpus.freed(executor, freed);
  }

  answered(answer: GrantAnswered): void {
    if (answer.epoch !== this.epoch) return;
    const at = this.#now();
    const sentAt = this.#grants.sentAtOf(answer);
    if (sentAt !== undefined) {
      this.#roundTrip.note(at, between(sentAt, at));
      this.#leadershipCheck.cameBack(sentAt);
    }
    this.#step({ kind: "grant-answered", at, ...answer });
  }

  /** A question to ourselves has come back. */
  cameBack(sentAt: Instant): void {
    const now = this.#now();
    this.#leadershipCheck.answered(earlier(sentAt, now), now);
    if (!this.#leadershipCheck.isAsking) this.#asking.clear();
    // An answer that is too late is no reason for another question: the alarm asks if something is due.
    if (!this.#leadershipCheck.holds(now)) return;
    this.#alarm.clear(); // it may be set to ask again
    this.#onAlarm();
  }

  /** RANKER-5. */
  #look(): void {
    if (this.#rank === undefined) return;
    const now = this.#now();
    this.#leadershipCheck.look(now);
    this.#keepNearIfSilent(now);
    if (this.#leadershipCheck.isAsking) this.#asking.set(after(now, PROVE_AGAIN));
  }
  /** Heartbeats bring the others back: for good once the server answers, and until the next look before that. */
  #keepNearIfSilent(now: Instant): void {
    if (!this.#leadershipCheck.isSilent(now)) return;
    for (const peer of this.#far()) {
      this.gpus.lost(peer);
      this.batcherLeft(peer);
    }
  }
  /** Executors and batchers that are reached through the server only. */
  #far(): ActorKey[] {
    const peers = [...this.gpus.executors(), ...this.#owners.batchers()];
    return peers.filter((peer) => !this.#options.runtime.isNear(peer));
  }

  modelStalled(number: number): void {
    this.#forget(this.#owners.forget(number));
  }

  batcherLeft(batcher: ActorKey): void {
    this.#forget(this.#owners.left(batcher));
  }

  #forget(threads: readonly ThreadId[]): void {
    for (const thread of threads) this.#step({ kind: "model-gone", at: this.#now(), thread });
  }

  /** RANKER-3. */
  #onAlarm(): void {
    this.#armedFor = NEVER;
    if (this.#rank === undefined) return;
    const now = this.#now();
    if (this.#leadershipCheck.holds(now)) {
      this.#keepNearIfSilent(now);
      return this.#step({ kind: "clock-reached", at: this.#now() }); // forgetting what is far took time
    }
    this.#leadershipCheck.ask(now);
    this.#alarm.set(after(now, PROVE_AGAIN));
  }

  #step(event: RankEvent): void {
    const { stepDown } = this.#options;
    if (this.#rank === undefined || (stepDown.isOver && event.kind === "clock-reached")) return;
    stepRank(this.#rank, event, this.#grants);
    if (stepDown.isOver) return stepDown.leaveIfUnowed();
    this.#rearm();
  }

  #rearm(): void {
    const next = this.#rank === undefined ? NEVER : nextRankWakeAt(this.#rank);
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }

  #now(): Instant {
    return this.#options.clock.now();
  }

  figures(): Record<string, number> {
    return {
      gpus: this.gpus.size,
      ...this.#grants.figures(),
      ctrlUs: this.#roundTrip.value(this.#now()),
      ...this.#idle.figures(),
    };
  }
}
