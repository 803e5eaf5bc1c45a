import type { BusStatus, Delivery, DeliverySubscription, Subscription } from "@tutti/ports/bus";
import type { Stop } from "@tutti/ports/clock";
import {
  type CheckedMessage,
  Heartbeat,
  type MessageType,
  type Role,
  StatsReported,
  type Subjects,
  TUTTI_RELEASE,
  subjectsOf,
} from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import { ALWAYS, type ActorKey, type Instant, actorToken, after, between, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { BeatPace } from "./beat-pace.ts";
import { AWAKE_WITHIN, BrokerStallDetector } from "./broker-stall-detector.ts";
import { PeerRegistry, type PeerWatcher } from "./peer-registry.ts";
import { Outbox, type Urgency } from "./outbox.ts";
import { PROBE_EVERY, PeerProbes } from "./peer-probes.ts";
import type { ActorConfig, ActorPorts } from "./ports.ts";

export interface ActorRuntimeOptions extends PeerWatcher {
  readonly role: Role;
  /** Roles whose heartbeats the actor subscribes to. */
  readonly listensTo: readonly Role[];
  /**
   * Whether the actor must learn of the peer's death at once instead of after a time-out. Default: no peer is probed.
   * The cost of probes is documented in peer-probes.ts.
   */
  readonly probes?: (peer: Heartbeat) => boolean;
  /** Further fields of the actor's own heartbeats, beside its identity. */
  readonly beat?: () => Partial<Heartbeat>;
  readonly stats: () => Omit<StatsReported, "key" | "role" | "at">;
  /** Events since the last report; each is reported once. */
  readonly told?: (at: Instant) => Pick<StatsReported, "batches" | "arrivals" | "refusals">;
}

type SlowConsumer = Extract<BusStatus, { readonly kind: "slow-consumer" }>;

/** How often a heartbeat carries the address for links, which is a third of the cost of such a heartbeat. */
const LINK_TOLD_EVERY = seconds(1);

/** Shared parts of all actors: inbox, outbox, heartbeats, peer registry, figures and the NATS services protocol. */
export class ActorRuntime {
  readonly subjects: Subjects;
  readonly reader = new FrameReader();
  readonly registry: PeerRegistry;
  /** Whether the server is awake; the peer registry asks several times a second. */
  readonly stallDetector: BrokerStallDetector;
  readonly log: Logger;
  /** Frames that could not be read: malformed input never stops an actor (T8). */
  faults = 0;
  readonly #ports: ActorPorts;
  readonly #config: ActorConfig;
  readonly #options: ActorRuntimeOptions;
  readonly #outbox: Outbox;
  readonly #subscriptions: DeliverySubscription[] = [];
  readonly #announced: Subscription[] = [];
  readonly #timers: Stop[] = [];
  readonly #pace: BeatPace;
  readonly startedAt: Instant;
  #probes: PeerProbes | undefined;
  #leaving = false;
  #linkToldAt: Instant = ALWAYS;
  #slowConsumers = 0;
  #standstills = 0;
  /** Frames of a newer version come with every heartbeat of a newer peer: the first is reported, all are counted. */
  #saidNewer = false;
  readonly #startedAt: Instant;

  constructor(ports: ActorPorts, config: ActorConfig, options: ActorRuntimeOptions) {
    this.#ports = ports;
    this.#config = config;
    this.#options = options;
    this.startedAt = ports.clock.now();
    this.subjects = subjectsOf(config.cluster);
    this.log = ports.telemetry.log.child({ role: options.role, actor: actorToken(config.key) });
    this.#pace = new BeatPace(config);
    this.#startedAt = ports.clock.now();
    this.#outbox = new Outbox(ports.bus, ports.clock, config.key, config.gatherFor);
    this.stallDetector = ports.stallDetector ?? new BrokerStallDetector(ports.bus, ports.clock, AWAKE_WITHIN);
    this.registry = new PeerRegistry(ports.clock, config.peerTimeout, options, this.stallDetector);
    this.onPacked(Heartbeat, (beat, sender) => {
      if (sender !== beat.key || sender === config.key) return;
      if (beat.link !== undefined && beat.host === config.host) ports.links?.hear(beat);
      this.registry.hear(beat);
    });
  }

  /** Like `reader.on`, for packed messages, which can carry any value. A malformed one is counted and dropped (T8). */
  onPacked<T extends object>(type: CheckedMessage<T>, handler: (value: T, sender: ActorKey) => void): void {
    this.onPlausible(type, type.accepts, handler);
  }

  /** Like `reader.on`, for messages whose values can be impossible. Such a one is counted and dropped (T8). */
  onPlausible<T extends object>(
    type: MessageType<T>,
    isPlausible: (value: T) => boolean,
    handler: (value: T, sender: ActorKey) => void,
  ): void {
    this.reader.on(type, (value, sender) => {
      if (isPlausible(value)) return handler(value, sender);
      this.faults++;
      this.log.warn({ message: type.name, sender: actorToken(sender) }, "dropped a malformed message");
    });
  }

  /** Starts to listen and to beat; call it when every handler is registered. */
  open(): void {
    const { bus, clock } = this.#ports;
    const { key } = this.#config;
    const read = (delivery: Delivery): void => this.#read(delivery);
    this.#subscriptions.push(
      bus.subscribe(this.subjects.actor(key), read, { exclusive: true }),
      bus.subscribe(this.subjects.alive(key), () => undefined, { exclusive: true }),
      bus.subscribe(this.subjects.role(this.#options.role), read),
      ...this.#options.listensTo.map((role) => bus.subscribe(this.subjects.beat(role), read)),
    );
    this.#announced.push(
      bus.announce({
        name: this.#options.role,
        id: actorToken(key),
        version: TUTTI_RELEASE,
        description: `Tutti ${this.#options.role}`,
        metadata: { cluster: this.#config.cluster, host: this.#config.host, pid: String(this.#config.pid) },
        stats: () => this.#options.stats().figures,
      }),
      bus.onStatus((status) => {
        if (status.kind === "slow-consumer") return this.#onSlow("control", status);
        if (status.kind === "silent" || status.kind === "heard") return; // its process says so
        if (status.kind === "disconnected") this.registry.disconnected();
        if (status.kind === "reconnected") this.#onReconnected();
        this.log.info({ bus: status.kind, text: "text" in status ? status.text : undefined }, `bus ${status.kind}`);
      }),
      this.#ports.bulk.onStatus((status) => {
        if (status.kind === "slow-consumer") this.#onSlow("bulk", status);
      }),
    );
    this.beat();
    if (this.#options.probes !== undefined) this.#startProbes(this.#options.probes);
    this.#timers.push(
      clock.every(this.#config.heartbeatEvery, () => this.#beatInTime()),
      clock.every(seconds(1), () => {
        // An idle actor beats with every report, so that a new listener learns of it within a second.
        if (this.#pace.isIdle) this.beat();
        this.report();
      }),
    );
  }

  send<T>(to: ActorKey, type: MessageType<T>, value: T, urgency: Urgency = "now"): void {
    if (urgency !== "upkeep") this.#wake();
    this.#outbox.add(this.subjects.actor(to), type, value, urgency);
  }

  /** Whether messages to it, and its own, need no server. */
  isNear(peer: ActorKey): boolean {
    return this.#ports.bus.isNear?.(this.subjects.actor(peer)) === true;
  }

  broadcast<T>(role: Role, type: MessageType<T>, value: T, urgency: Urgency = "now"): void {
    if (urgency !== "upkeep") this.#wake();
    this.#outbox.add(this.subjects.role(role), type, value, urgency);
  }

  /**
   * Sends a heartbeat at once when an idle actor starts to work. Until then its peers expect heartbeats at long
   * intervals.
   */
  #wake(): void {
    if (this.#pace.works(this.#ports.clock.now())) this.beat();
  }

  #beatInTime(): void {
    if (this.#pace.isDue(this.#ports.clock.now(), this.registry.size)) this.beat();
  }

  /** @param to - receiver of the heartbeat; default: all subscribers of the role's heartbeats */
  beat(to?: ActorKey): void {
    const { key, host, pid } = this.#config;
    const now = this.#ports.clock.now();
    if (to === undefined) this.#pace.beats(now);
    const subject = to === undefined ? this.subjects.beat(this.#options.role) : this.subjects.actor(to);
    const { every } = this.#pace;
    this.#outbox.add(subject, Heartbeat, {
      key,
      role: this.#options.role,
      host,
      pid,
      sentAt: now,
      startedAt: this.startedAt,
      leaving: this.#leaving,
      ...(every !== undefined && { every }),
      ...this.#linkFor(to, now),
      ...this.#options.beat?.(),
    });
  }

  #linkFor(to: ActorKey | undefined, now: Instant): Pick<Heartbeat, "link"> | undefined {
    const { links } = this.#ports;
    if (links === undefined || (to === undefined && now < after(this.#linkToldAt, LINK_TOLD_EVERY))) return undefined;
    if (to === undefined) this.#linkToldAt = now;
    return { link: links.own };
  }

  get framesLost(): number {
    return this.#outbox.lost;
  }

  /** Stops the actor. It says goodbye, so that no peer has to wait for a time-out. */
  close(done: () => void): void {
    this.#leaving = true;
    for (const timer of this.#timers) timer.stop();
    this.registry.stop();
    this.#probes?.stop();
    this.beat();
    this.#outbox.close();
    this.#announced.forEach((subscription) => subscription.stop());
    // Messages that peers sent before they heard the goodbye are still read (T9).
    this.#ports.bus.flush(() => this.#drainSubscriptions(() => this.#ports.bus.flush(done)));
  }

  #drainSubscriptions(done: () => void): void {
    let left = this.#subscriptions.length;
    if (left === 0) return done();
    const onDrained = (): void => {
      if (--left > 0) return;
      this.#outbox.close();
      done();
    };
    for (const subscription of this.#subscriptions) subscription.drain(onDrained);
  }

  /** Finds out whether an actor that holds something, but was never heard, is gone (PeerProbes). */
  askAfter(stranger: ActorKey, onGone: () => void): void {
    this.#probes?.askAfter(stranger, onGone);
  }

  #startProbes(matters: (peer: Heartbeat) => boolean): void {
    const { bus, clock } = this.#ports;
    const every = this.#config.probeEvery ?? PROBE_EVERY;
    const subjectOf = (peer: ActorKey): string => this.subjects.alive(peer);
    this.#probes = new PeerProbes({ bus, clock, every, registry: this.registry, subjectOf, matters });
  }

  /**
   * This process reads more slowly than its peers send, or stood still. The server holds their messages up, and cuts it
   * off in the end.
   */
  #onSlow(connection: "control" | "bulk", { stoodStillMs, text }: SlowConsumer): void {
    if (stoodStillMs > 0) this.#standstills++;
    else this.#slowConsumers++;
    this.log.warn({ connection, slowConsumers: this.#slowConsumers, standstills: this.#standstills }, text);
  }

  #onReconnected(): void {
    this.registry.reconnected();
    this.#probes?.reconnected();
    this.beat();
  }

  #read(delivery: Delivery): void {
    // An empty message with a reply subject is a probe. Its delivery is all that the prober needs.
    if (delivery.payload.length === 0 && delivery.reply !== undefined) return;
    const fault = this.reader.read(delivery.payload);
    if (fault === undefined) return;
    this.faults++;
    if (fault.isNewer === true && this.#saidNewer) return;
    this.#saidNewer ||= fault.isNewer === true;
    this.log.warn({ subject: delivery.subject, fault: fault.fault }, "dropped a malformed frame");
  }

  /** Publishes the figures ahead of the report that goes out once a second. */
  report(): void {
    const stats = this.#options.stats();
    const at = this.#ports.clock.now();
    const reading = { slowConsumers: this.#slowConsumers, standstills: this.#standstills };
    const own = { frameFaults: this.faults, framesLost: this.#outbox.lost, ...reading };
    const figures = { ...stats.figures, ...own, ...this.#ports.vitals?.() };
    this.#outbox.add(this.subjects.stats(this.#options.role), StatsReported, {
      key: this.#config.key,
      role: this.#options.role,
      at,
      release: TUTTI_RELEASE,
      countedFor: between(this.#startedAt, at),
      ...stats,
      ...this.#options.told?.(at),
      figures,
    });
  }
}
