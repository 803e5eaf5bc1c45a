import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import {
  CandidateOffered,
  GpuFreed,
  GpuGranted,
  GpuJoined,
  type GpuState,
  GrantAnswered,
  Heartbeat,
  LeadExpected,
  type MessageType,
  RankerAnnounced,
  type Role,
  subjectsOf,
} from "@tutti/protocol";
import {
  ACTOR_KEY_MAX,
  ALWAYS,
  type ActorKey,
  type GpuId,
  type Instant,
  type ThreadId,
  actorKey,
  after,
  gpuId,
  micros,
  millis,
  threadId,
} from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";

const DELAY = micros(50);
const RUN = micros(100);
const GPUS = [0, 1, 2, 3].map((id) => gpuId(id));
const THREADS = [0, 1, 2].map((model) => threadId(model, 0));

export interface WarmupPeersOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly cluster: string;
  readonly subCluster: string;
  /** Number of grants after which they offer nothing more. */
  readonly grantsMax: number;
}

/**
 * The simulated peers: a leader that wants to leave, an executor with a few accelerators, and a batcher. Its models
 * always have a batch for the accelerators.
 */
export class WarmupPeers {
  readonly ranker = keyOf(1);
  readonly leader = keyOf(2);
  grants = 0;
  readonly #executor = keyOf(3);
  readonly #batcher = keyOf(4);
  readonly #options: WarmupPeersOptions;
  readonly #subjects: ReturnType<typeof subjectsOf>;
  readonly #gpus = new Map<GpuId, { freeAt: Instant; grantSeq: number }>(
    GPUS.map((gpu) => [gpu, { freeAt: ALWAYS, grantSeq: 0 }]),
  );
  readonly #writers = new Map<ActorKey, FrameWriter>();
  readonly #candidates = new Map<ThreadId, CandidateOffered>();
  #epoch = 1;
  #offers = 0;
  #hasLeft = false;

  constructor(options: WarmupPeersOptions) {
    this.#options = options;
    this.#subjects = subjectsOf(options.cluster);
    const reader = new FrameReader()
      .on(LeadExpected, () => this.#join())
      .on(RankerAnnounced, (leader) => this.#obey(leader))
      .on(GpuGranted, (grant) => this.#answer(grant));
    for (const subject of [this.#subjects.role("executor"), this.#subjects.actor(this.#batcher)])
      options.bus.subscribe(subject, ({ payload }) => void reader.read(payload));
    for (const peer of [this.#executor, this.#batcher])
      options.bus.subscribe(this.#subjects.alive(peer), () => undefined);
  }

  /** Ends all messages of these peers. */
  leave(): void {
    this.#hasLeft = true;
  }

  beat(): void {
    const { subCluster } = this.#options;
    this.#beat(this.#executor, "executor", { gpus: this.#states() });
    this.#beat(this.#batcher, "batcher", { offers: [...this.#candidates.values()], takes: true });
    if (this.#epoch === 1) this.#beat(this.leader, "ranker", { epoch: 1, subCluster, grants: 0, yields: true });
  }

  /** Accepts a new leader. The executor repeats its last message to the spare, as if that had been late. */
  #obey({ epoch, subCluster }: RankerAnnounced): void {
    if (this.#epoch === 1) this.#beat(this.leader, "ranker", { leaving: true, epoch: 0, subCluster, grants: 0 });
    this.#join();
    this.#epoch = epoch;
    this.#join();
    for (const thread of THREADS) this.#offer(thread);
  }

  #join(): void {
    const executor = this.#executor;
    this.#send(executor, GpuJoined, { executor, epoch: this.#epoch, gpus: this.#states() });
  }
  #states(): GpuState[] {
    const { subCluster } = this.#options;
    const epoch = this.#epoch;
    return [...this.#gpus].map(([gpu, { freeAt, grantSeq }]) => ({
      ...{ gpu, freeAt, epoch, grantSeq },
      ...{ subCluster, serving: true, type: "none" },
    }));
  }

  #answer(grant: GpuGranted): void {
    const { gpu, grantSeq, thread, offerSeq, executor, epoch } = grant;
    this.grants++;
    const freeAt = after(this.#options.clock.now(), RUN);
    this.#gpus.set(gpu, { freeAt, grantSeq });
    this.#send(this.#batcher, GrantAnswered, { ...grant, offerSeq, used: true, freeAt, scarcity: 0 });
    this.#send(this.#executor, GpuFreed, { gpu, executor, epoch, grantSeq, freeAt });
    this.#offer(thread);
  }

  /** Offers a candidate; every other one is due at once, the rest a moment later. */
  #offer(thread: ThreadId): void {
    if (this.grants >= this.#options.grantsMax) return;
    const now = this.#options.clock.now();
    const offerSeq = ++this.#offers;
    const execAt = offerSeq % 2 === 0 ? now : after(now, RUN);
    const latest = after(execAt, millis(20));
    const candidate = { thread, term: 1, offerSeq, batchSize: 1, execAt, latest, delay: DELAY, unfit: [] };
    this.#candidates.set(thread, candidate);
    this.#send(this.#batcher, CandidateOffered, candidate);
  }

  #beat(key: ActorKey, role: Role, more: Partial<Heartbeat>): void {
    const now = this.#options.clock.now();
    const beat = { key, role, host: "nowhere", pid: 0, sentAt: now, startedAt: now, leaving: false, ...more };
    this.#publish(this.#subjects.beat(role), key, Heartbeat, beat);
  }
  #send<T>(from: ActorKey, type: MessageType<T>, value: T): void {
    this.#publish(this.#subjects.actor(this.ranker), from, type, value);
  }
  #publish<T>(subject: string, from: ActorKey, type: MessageType<T>, value: T): void {
    if (this.#hasLeft) return;
    const writer = this.#writers.get(from) ?? new FrameWriter(from);
    this.#writers.set(from, writer);
    writer.add(type, value);
    this.#options.bus.publish(subject, writer.take());
  }
}

/** Keys as large as those of real processes. */
function keyOf(place: number): ActorKey {
  return actorKey(ACTOR_KEY_MAX - place);
}
