/**
 * The record of a chaos run, from which it is judged. It has requests with their senders and times, answers, strikes,
 * and the messages that the tap heard. Times in ms of one clock.
 */
import type { ProcessRole } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/** `node`: nodes and executors; `spread`: a process for each role. */
export interface Layout {
  readonly kind: "node" | "spread";
  readonly nodes: number;
  /**
   * Number of NATS servers of the cluster, which are struck as well. Default: the one that `tutti up` starts, which is
   * not struck.
   */
  readonly natsServers?: 3;
}
export type StruckRole = ProcessRole | "nats";

/**
 * One answer and its status. `ok`: the right outputs; `wrong`: others; else the code of an error, or `NO_INGRESS` where
 * neither the server nor a gateway knew of an ingress.
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
  /** The node whose gateway and ingress took the request. Undefined: it went over NATS, to any ingress. */
  via?: string;
  /** Connections to gateways that broke during the request, and when. */
  readonly broken: { readonly name: string; readonly atMs: number; readonly code?: string | undefined }[];
}

export const SIGNALS = ["SIGKILL", "SIGTERM", "SIGSTOP"] as const;
export type StrikeSignal = (typeof SIGNALS)[number];

export interface Strike {
  readonly atMs: number;
  /** Name of the process in `tutti up`. */
  readonly name: string;
  readonly role: StruckRole;
  /** Whether the process' ranker led. */
  readonly leading: boolean;
  /** Whether no other process can serve until it is back. */
  readonly alone: boolean;
  /** Its ingress, where it has one. Undefined if the tap had not heard of it yet. */
  readonly actor: ActorKey | undefined;
  readonly signal: StrikeSignal;
  /** When it was woken (SIGSTOP), or reported that it is ready again. For a NATS server, when it was started again. */
  backMs: number | undefined;
}

/** An ingress' last report of itself. */
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
  /** Ingresses that reported a request to a batcher, by the request's token. */
  readonly takers: ReadonlyMap<number, ReadonlySet<ActorKey>>;
  /** Living ingresses, and how many requests each has taken since it started: read after the last request was over. */
  readonly counted: ReadonlyMap<ActorKey, IngressCount>;
  /** Longest lag of the generator itself. */
  readonly lagMsMax: number;
}
