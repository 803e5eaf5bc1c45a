/**
 * What a chaos run leaves to be judged: who asked what and when, what came back, who was struck, and what the tap
 * heard. Times in ms of one clock.
 */
import type { ProcessRole } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/** `node`: nodes and executors; `spread`: a process for each role. */
export interface Layout {
  readonly kind: "node" | "spread";
  readonly nodes: number;
  /**
   * NATS servers: 3 of one cluster, which are struck as well, or the one that `tutti up` starts, which is not. Default:
   * that one.
   */
  readonly natsServers?: 3;
}
export type StruckRole = ProcessRole | "nats";

/**
 * `ok`: the right outputs; `wrong`: others; else the code of an error, or `NO_INGRESS` where the server or no gateway
 * knew of one.
 */
export interface Answer {
  readonly atMs: number;
  readonly status: string;
}

export interface SentRequest {
  readonly token: number;
  readonly model: string;
  readonly sentMs: number;
  readonly sloMs: number;
  readonly answers: Answer[];
  /** The node whose gateway was asked, and whose ingress has it then. Undefined: it went over NATS, to any ingress. */
  via?: string;
  /** Connections to gateways that broke under it, and when. */
  readonly broken: { readonly name: string; readonly atMs: number }[];
}

export const SIGNALS = ["SIGKILL", "SIGTERM", "SIGSTOP"] as const;
export type StrikeSignal = (typeof SIGNALS)[number];

export interface Strike {
  readonly atMs: number;
  /** Of the process, as `tutti up` calls it. */
  readonly name: string;
  readonly role: StruckRole;
  /** The ranker in it led. */
  readonly leading: boolean;
  /** Nobody else can serve until it is back. */
  readonly alone: boolean;
  /** Its ingress, where it has one. Undefined if the tap had not heard of it yet. */
  readonly actor: ActorKey | undefined;
  readonly signal: StrikeSignal;
  /** When it was woken (SIGSTOP), or said that it is ready again; a NATS server: when it was started again. */
  backMs: number | undefined;
}

/** What an ingress said of itself last. */
export interface IngressCount {
  /** Requests that it took since it started, and those of them that it has answered. */
  readonly requests: number;
  readonly settled: number;
  readonly atMs: number;
}

export interface ChaosRecord {
  readonly seed: number;
  readonly layout: Layout;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly requests: readonly SentRequest[];
  readonly strikes: readonly Strike[];
  /** Ingresses that told a batcher of a request, by the request's token. */
  readonly takers: ReadonlyMap<number, ReadonlySet<ActorKey>>;
  /** Living ingresses, and how many requests each has taken since it started: asked after the last request was over. */
  readonly counted: ReadonlyMap<ActorKey, IngressCount>;
  /** Longest that the generator was late itself. */
  readonly lagMsMax: number;
}
