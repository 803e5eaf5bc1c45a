import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import type { Heartbeat, LinkAddress, Role } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Telemetry } from "@tutti/ports/telemetry";
import type { BrokerStallDetector } from "./broker-stall-detector.ts";
import type { BatchCarrier } from "./ingress/batch-carrier.ts";
import type { LocalIngress } from "./ingress/local-ingress.ts";
import type { ActorKey, Micros } from "@tutti/units";

/** Filled by whoever offers something, and empty where no such actor is in this process. */
export interface LocalActors {
  /** An ingress that can send a batch with its rows. */
  rows?: BatchCarrier | undefined;
  /** An ingress that takes the requests of this process' gateway without messages. */
  ingress?: LocalIngress | undefined;
}

/** What every actor is given. The same actor runs on NATS and real time, or on the simulator's bus and clock (T6). */
export interface ActorPorts {
  /** Control messages. */
  readonly bus: Bus;
  /**
   * A second connection for publishers' requests and answers, so that one blocked consumer of bulk data never delays
   * control.
   */
  readonly bulk: Bus;
  /**
   * ingress: a third one for answers, whose user may publish to applications' inboxes and nowhere else. Default:
   * `bulk`.
   */
  readonly answers?: Bus;
  readonly store: Store;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** Random bytes for secrets; seeded in the simulator. */
  readonly randomBytes: (count: number) => Uint8Array;
  /**
   * Figures of the process that the actor lives in, told with its own: processor time, memory, how late its event loop
   * is.
   */
  readonly vitals?: () => Readonly<Record<string, number>>;
  /** Whether the server is awake, asked once for all actors of a process. Default: each asks for itself. */
  readonly stallDetector?: BrokerStallDetector;
  /** What the actors of one process offer each other besides messages. */
  readonly local?: LocalActors;
  /**
   * How processes of this host reach ours, told in heartbeats; and whoever was heard, to be reached in the same way.
   */
  readonly links?: { readonly own: LinkAddress; hear(beat: Heartbeat): void };
  /**
   * Whether a process of our own host lives: false from the moment on at which it begins to end; undefined where that
   * can't be told.
   */
  readonly processLives?: (pid: number) => boolean | undefined;
}

export interface ActorConfig {
  readonly key: ActorKey;
  readonly cluster: string;
  readonly host: string;
  readonly pid: number;
  readonly heartbeatEvery: Micros;
  /** How often while it has nothing to do. Default: as often as ever. */
  readonly idleHeartbeatEvery?: Micros;
  /** A peer that is silent for so long is dead. A killed one is noticed earlier by whoever probes it. */
  readonly peerTimeout: Micros;
  /** How often peers are probed whose death must be known at once. Default: 20 ms. */
  readonly probeEvery?: Micros;
  /**
   * How long what may wait (arrivals, refusals, reports) is gathered into one message. Default: 1 ms; 0: nothing waits.
   */
  readonly gatherFor?: Micros;
}

/** What a service's main.ts holds. */
export interface Actor {
  readonly role: Role;
  readonly key: ActorKey;
  /** Stops taking work, finishes what it has, says goodbye; then `done`. */
  drain(done: () => void): void;
}
