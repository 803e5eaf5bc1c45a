/**
 * A spare succeeds the leader of a cluster that isn't there: a ranker that only yields, an executor and a batcher that only answer, on a bus, a clock and a store in memory. What a takeover runs has
 * then been compiled before the first takeover that matters; cold it took some 10 ms between the lease and the first grant.
 */
import { type Bus, InMemoryNetwork } from "@tutti/bus";
import { VirtualClock } from "@tutti/clock";
import {
  CandidateOffered,
  GpuFreed,
  GpuGranted,
  GpuJoined,
  type GpuState,
  BUCKET,
  GrantAnswered,
  Heartbeat,
  LeadExpected,
  type MessageType,
  RankerAnnounced,
  type Role,
  leaseKeys,
  subjectsOf,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/store";
import { noTelemetry } from "@tutti/telemetry";
import { ALWAYS, type ActorKey, actorKey, after, gpuId, micros, millis, seconds, threadId } from "@tutti/units";
import { FrameReader, FrameWriter, toJson } from "@tutti/wire";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";

const CLUSTER = "rehearsal";
const [RANKER, EXECUTOR, BATCHER, LEADER] = [actorKey(1), actorKey(2), actorKey(3), actorKey(4)];
const HOP = micros(50);
const RUN = millis(1);
const THREAD = threadId(0, 0);
const subjects = subjectsOf(CLUSTER);

/**
 * @param subCluster - of that ranker
 * @param create - makes the ranker that takes the lead
 * @param grants - how many it gives
 * @returns the grants that it gave
 */
export function rehearseLead(
  subCluster: string,
  create: (ports: ActorPorts, config: ActorConfig, ready: () => void) => Actor,
  grants: number,
): number {
  const clock = new VirtualClock();
  const hop = (run: () => void): void => clock.alarm(run).set(after(clock.now(), HOP));
  const network = new InMemoryNetwork({ deliver: hop, later: hop, startTimer: () => ({ stop: () => undefined }) });
  const peers = new Peers(network.connect({ name: "peers" }), clock);
  const store = new InMemoryStore({ deliver: hop });
  store.put(BUCKET.leases, leaseKeys.ranker(subCluster), toJson({ ranker: LEADER }), () => undefined);
  const ports: ActorPorts = {
    bus: network.connect({ name: "ranker" }),
    bulk: network.connect({ name: "ranker-bulk" }),
    store,
    clock,
    telemetry: noTelemetry,
    randomBytes: (count) => new Uint8Array(count),
  };
  const config = { cluster: CLUSTER, host: "nowhere", pid: 0, heartbeatEvery: millis(100), peerTimeout: seconds(1) };
  const endAt = after(clock.now(), seconds(60)); // of virtual time: it always ends
  const ranker = create(ports, { key: RANKER, ...config }, () => undefined);
  while (peers.grants < grants && clock.now() < endAt) {
    peers.beat(subCluster);
    clock.advanceTo(after(clock.now(), millis(10)));
  }
  ranker.drain(() => undefined);
  clock.advanceTo(after(clock.now(), millis(100)));
  return peers.grants;
}

const gpuOf = (epoch: number, subCluster: string): GpuState => ({
  ...{ gpu: gpuId(0), freeAt: ALWAYS, epoch, grantSeq: 0 },
  ...{ subCluster, serving: true, type: "none" },
});

/** A leader that wants to leave, one accelerator, and one model that always has a batch for it. */
class Peers {
  grants = 0;
  #epoch = 1;
  readonly #bus: Bus;
  readonly #clock: VirtualClock;
  #offers = 0;

  constructor(bus: Bus, clock: VirtualClock) {
    this.#bus = bus;
    this.#clock = clock;
    const reader = new FrameReader()
      .on(LeadExpected, (successor) => this.#join(successor))
      .on(RankerAnnounced, (leader) => this.#obey(leader))
      .on(GpuGranted, (grant) => this.#answer(grant));
    for (const subject of [subjects.role("executor"), subjects.actor(BATCHER)])
      bus.subscribe(subject, ({ payload }) => void reader.read(payload));
    bus.subscribe(subjects.alive(EXECUTOR), () => undefined);
  }

  /** Heartbeats: of the first revision's holder, which yields, and of the executor. */
  beat(subCluster: string): void {
    this.#beat(EXECUTOR, "executor", { gpus: [gpuOf(this.#epoch, subCluster)] });
    if (this.#epoch === 1) this.#beat(LEADER, "ranker", { epoch: 1, yields: true, subCluster });
  }

  #obey(leader: RankerAnnounced): void {
    if (this.#epoch === 1) this.#beat(LEADER, "ranker", { leaving: true, subCluster: leader.subCluster });
    this.#epoch = leader.epoch;
    this.#join(leader);
  }

  #beat(key: ActorKey, role: Role, more: Partial<Heartbeat>): void {
    const now = this.#clock.now();
    const beat = { key, role, host: "nowhere", pid: 0, sentAt: now, startedAt: now, leaving: false, ...more };
    this.#publish(subjects.beat(role), key, Heartbeat, beat);
  }

  #join({ epoch, subCluster }: RankerAnnounced): void {
    this.#send(EXECUTOR, GpuJoined, { executor: EXECUTOR, epoch, gpus: [gpuOf(epoch, subCluster)] });
    this.#offer();
  }

  #answer(grant: GpuGranted): void {
    this.grants++;
    const freeAt = after(this.#clock.now(), RUN);
    this.#send(BATCHER, GrantAnswered, { ...grant, offerSeq: this.#offers, used: true, freeAt });
    this.#send(EXECUTOR, GpuFreed, { ...grant, freeAt });
    this.#offer();
  }

  #offer(): void {
    const execAt = after(this.#clock.now(), RUN);
    const latest = after(execAt, millis(20));
    const offer = { thread: THREAD, term: 1, offerSeq: ++this.#offers, batchSize: 1, execAt, latest, delay: HOP };
    this.#send(BATCHER, CandidateOffered, offer);
  }

  #send<T>(from: ActorKey, type: MessageType<T>, value: T): void {
    this.#publish(subjects.actor(RANKER), from, type, value);
  }
  #publish<T>(subject: string, from: ActorKey, type: MessageType<T>, value: T): void {
    const frame = new FrameWriter(from);
    frame.add(type, value);
    this.#bus.publish(subject, frame.take());
  }
}
