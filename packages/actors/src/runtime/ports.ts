import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import type { Heartbeat, LinkAddress, Role } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Telemetry } from "@tutti/ports/telemetry";
import type { BrokerStallDetector } from "./broker-stall-detector.ts";
import type { BatchCarrier, LocalIngress } from "./local-actors.ts";
import type { ActorKey, Micros } from "@tutti/units";

/** Services that actors of one process offer each other; undefined if no such actor is in this process. */
export interface LocalActors {
  /** An ingress that can send a batch with its rows. */
  rows?: BatchCarrier | undefined;
  /** An ingress that takes the requests of this process' gateway without messages. */
  ingress?: LocalIngress | undefined;
}

/** Ports of every actor. The same actor runs on NATS and real time, or on the simulator's bus and clock (T6). */
export interface ActorPorts {
  /** Control messages. */
  readonly bus: Bus;
  /**
   * A second connection for publishers' requests and answers, so that one blocked consumer of bulk data never delays
   * control.
   */
  readonly bulk: Bus;
  /**
   * ingress: a third connection for answers, whose user may publish to applications' inboxes and nowhere else. Default:
   * `bulk`.
   */
  readonly answers?: Bus;
  readonly store: Store;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** Random bytes for secrets; seeded in the simulator. */
  readonly randomBytes: (count: number) => Uint8Array;
  /** Figures of the actor's process, reported with its own: processor time, memory, lateness of the event loop. */
  readonly vitals?: () => Readonly<Record<string, number>>;
  /** Detects stalls of the server, once for all actors of a process. Default: each actor detects them itself. */
  readonly stallDetector?: BrokerStallDetector;
  /** Services of the other actors in this process, besides messages. */
  readonly local?: LocalActors;
  /**
   * Direct links between processes of this host. `own`: our address, which heartbeats carry; `hear`: notes a peer's
   * address.
   */
  readonly links?: { readonly own: LinkAddress; hear(beat: Heartbeat): void };
  /**
   * Whether a process of our own host lives. It is false from the moment at which the process begins to end, and
   * undefined if that is unknown.
   */
  readonly processLives?: (pid: number) => boolean | undefined;
}

export interface ActorConfig {
  readonly key: ActorKey;
  readonly cluster: string;
  readonly host: string;
  readonly pid: number;
  readonly heartbeatEvery: Micros;
  /** Heartbeat interval while it is idle. Default: `heartbeatEvery`. */
  readonly idleHeartbeatEvery?: Micros;
  /** A peer that is silent for this long is dead. Its probers notice a killed peer earlier. */
  readonly peerTimeout: Micros;
  /** Interval between probes of peers whose death must be known at once. Default: 20 ms. */
  readonly probeEvery?: Micros;
  /**
   * How long messages that may wait (arrivals, refusals, reports) are gathered into one. Default: 1 ms; 0: none waits.
   */
  readonly gatherFor?: Micros;
}

/** An actor, as a service's main.ts holds it. */
export interface Actor {
  readonly role: Role;
  readonly key: ActorKey;
  /** Stops taking work, finishes the present work, says goodbye, and then calls `done`. */
  drain(done: () => void): void;
  /** Why no request that comes here can be answered; empty: it can. Only gateways know. */
  missing?(): readonly string[];
}
