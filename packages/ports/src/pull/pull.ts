import type { BatchDispatched, DataAddress, PulledItem, PullRequest, ResultBatch } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/**
 * The data plane: executors pull the inputs of a batch from the ingresses that hold them, and push the outputs back.
 * Bulk data never shares the control connection. Two adapters: over NATS (works everywhere) and over a direct TCP
 * connection (the default where it connects).
 */
export interface DataServer {
  /**
   * Address for executors to connect to; undefined when only NATS reaches this ingress, or when it isn't listening yet.
   * It travels in the ingress's heartbeats.
   */
  readonly address: DataAddress | undefined;
  /**
   * Sends a batch together with its rows to an executor of this host, which then has nothing to pull.
   *
   * @returns false if the executor is on another host, or the rows are too many for one message; then nothing is sent
   */
  pushBatch?(batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]): boolean;
  close(done: () => void): void;
}

/** Handlers of an ingress for incoming messages. All contents come from outside: the handler checks ids and tokens. */
export interface DataHandlers {
  /**
   * Answer once, with an item for each of `pull.seqs` in their order; later answers are ignored. Answer an unauthorised
   * pull with `undefined`. Never change a row after handing it over: a full socket still reads it after `reply` has
   * returned.
   */
  onPull(pull: PullRequest, reply: (items: readonly PulledItem[] | undefined) => void): void;
  /** Handles results; their buffers are borrowed until the call returns. */
  onResults(results: ResultBatch): void;
}

/** An ingress as an executor knows it from the ingress's heartbeats. */
export interface DataPeer {
  readonly key: ActorKey;
  readonly address: DataAddress | undefined;
}

export interface DataClient {
  /**
   * Calls `done` exactly once, after this call returns and at the latest after `timeoutMs`. Rows are valid until `done`
   * returns, which copies them into the batch buffer.
   */
  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void;
  /**
   * Sends outputs; they may be reused once the call returns. They are lost with the connection, as a control message
   * is.
   */
  push(peer: DataPeer, results: ResultBatch): void;
  /**
   * Sets a listener for batches that an ingress of this host sends with their rows (`pushBatch`). Rows are valid until
   * the listener returns.
   */
  onBatch?(listener: (batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]) => void): void;
  /** Fails the pulls that wait for a dead peer, and closes its connection. */
  forget(key: ActorKey): void;
  close(done: () => void): void;
}

/** A client that knows which peers it is connected to. */
export interface DirectClient extends DataClient {
  /** Whether a pull would go out at once. */
  isConnected(peer: DataPeer): boolean;
  /** Connects to the peer; calls `done` once, after this call returns, when the connection is up or has failed. */
  connect(peer: DataPeer, done: (isUp: boolean) => void): void;
  /** As `push`, but returns false and sends nothing when there is no connection to the peer. */
  tryPush(peer: DataPeer, results: ResultBatch): boolean;
}

export type PullOutcome =
  { readonly items: readonly PulledItem[] } | { readonly failure: "timeout" | "unreachable" | "forbidden" };
