import type { BatchDispatched, DataAddress, PulledItem, PullRequest, ResultBatch } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/**
 * The data plane: executors pull the inputs of a batch from the ingresses that hold them, and push the outputs back.
 * Bulk data never shares the control connection. Two adapters: over NATS (works everywhere) and over a direct TCP
 * connection (the default where it connects).
 */
export interface DataServer {
  /**
   * Where executors connect to; undefined when only NATS reaches this ingress, or not yet listening. Travels in its
   * heartbeats.
   */
  readonly address: DataAddress | undefined;
  /**
   * Sends a batch together with its rows to an executor of this host, which then has nothing to pull.
   *
   * @returns false and nothing sent: the executor is not near, or the rows are too many for one message
   */
  pushBatch?(batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]): boolean;
  close(done: () => void): void;
}

/**
 * What an ingress does with what comes in. Everything in it came from outside: ids and tokens are checked by the
 * handler.
 */
export interface DataHandlers {
  /**
   * Answer once, an item for each of `pull.seqs` in their order; later answers are ignored. An unauthorised pull is
   * answered with `undefined`. A row is never changed once it is handed over: a socket that is full still reads it
   * after `reply` has returned.
   */
  onPull(pull: PullRequest, reply: (items: readonly PulledItem[] | undefined) => void): void;
  /** Buffers are borrowed until the call returns. */
  onResults(results: ResultBatch): void;
}

/** An ingress as an executor knows it, from its heartbeats. */
export interface DataPeer {
  readonly key: ActorKey;
  readonly address: DataAddress | undefined;
}

export interface DataClient {
  /**
   * Exactly one call of `done`, after this call and by `timeoutMs` at the latest. Rows are valid until `done` returns:
   * they are copied into the batch buffer there.
   */
  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void;
  /**
   * Sends outputs; they may be reused once the call returns. Lost with the connection, as a control message would be.
   */
  push(peer: DataPeer, results: ResultBatch): void;
  /**
   * Told of batches that an ingress of this host sends with their rows (`pushBatch`). Rows are valid until the listener
   * returns.
   */
  onBatch?(listener: (batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]) => void): void;
  /** A peer is gone: fail what waits for it and close its connection. */
  forget(key: ActorKey): void;
  close(done: () => void): void;
}

/** A client that knows which peers it is connected to. */
export interface DirectClient extends DataClient {
  /** As `push`, but false and nothing sent when there is no connection to the peer. */
  tryPush(peer: DataPeer, results: ResultBatch): boolean;
}

export type PullOutcome =
  { readonly items: readonly PulledItem[] } | { readonly failure: "timeout" | "unreachable" | "forbidden" };
