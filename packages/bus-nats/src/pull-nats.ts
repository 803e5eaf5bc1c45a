/**
 * The data plane over a Bus. Pulls and results go to the ingress' bulk subject, replies to a subject for this pair of
 * executor and ingress. It uses one subscription and integer correlations instead of requests (docs/architecture.md,
 * 8). A reply subject per pair identifies the peer that has "no responders". Payloads larger than one message travel in
 * fragments.
 */
import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import { BatchDispatched, type PullRequest, type PulledItem, type ResultBatch, subjectsOf } from "@tutti/protocol";
import {
  type DataClient,
  type DataHandlers,
  type DataPeer,
  type DataServer,
  PendingPulls,
  type PullOutcome,
  type StartTimer,
} from "@tutti/ports/pull";
import { type ActorKey, actorToken } from "@tutti/units";
import {
  type DataFrame,
  type DecodedFrame,
  FrameReader,
  FrameWriter,
  decodeFrame,
  encodePull,
  encodeReply,
  encodeResults,
  isFrameFault,
  writeFrame,
} from "@tutti/wire";
import { BulkOutbox } from "./bulk-outbox.ts";
import { FrameIntake } from "./frame-intake.ts";

export interface NatsDataOptions {
  /** The connection for bulk data, never the one for control. */
  readonly bus: Bus;
  readonly cluster: string;
  /** Key of the ingress, or of the executor. */
  readonly key: ActorKey;
  readonly onFault?: (text: string) => void;
  /** Runs at the end of this turn. Default: a microtask. */
  readonly later?: (run: () => void) => void;
  /** Timer for the time-outs of pulls. Default: setTimeout. */
  readonly startTimer?: StartTimer;
}

export interface NatsDataFigures {
  pulls: number;
  results: number;
  forbiddenPulls: number;
  /** Messages that were no frames, or for another receiver. */
  faults: number;
  /** Pulls, replies and results that the bus did not take. */
  dropped: number;
}
const noFigures = (): NatsDataFigures => ({ pulls: 0, results: 0, forbiddenPulls: 0, faults: 0, dropped: 0 });

export interface NatsDataServer extends DataServer {
  readonly figures: Readonly<NatsDataFigures>;
}

/** Serves an ingress' data plane over NATS, beside a TCP server with the same handlers where there is one. */
export function serveNats(options: NatsDataOptions & { readonly handlers: DataHandlers }): NatsDataServer {
  const { bus, cluster, key, handlers } = options;
  const subjects = subjectsOf(cluster);
  const figures = noFigures();
  const fault = (text: string): void => {
    figures.faults++;
    options.onFault?.(text);
  };
  const outbox = new BulkOutbox(bus, key, options.later);

  const onPull = (correlation: number, pull: PullRequest, delivery: Delivery): void => {
    // Reply only to where this executor listens: a reply subject of the sender's choosing could be anybody's.
    const subject = replySubject(subjects.bulkReply(pull.executor as ActorKey), key);
    if (delivery.reply !== subject) return fault(`a pull that wants its answer at ${delivery.reply}`);
    figures.pulls++;
    let replied = false;
    handlers.onPull(pull, (items: readonly PulledItem[] | undefined) => {
      if (replied) return;
      replied = true;
      if (items === undefined) figures.forbiddenPulls++;
      for (const frame of encodeReply(items, correlation, outbox.runBytes))
        if (!outbox.send(subject, undefined, frame)) figures.dropped++;
    });
  };
  const intake = new FrameIntake(fault, (frame: DecodedFrame, delivery: Delivery) => {
    if (frame.kind === "pull") onPull(frame.correlation, frame.pull, delivery);
    else if (frame.kind !== "results") fault(`${frame.kind} is not for an ingress`);
    else {
      figures.results++;
      handlers.onResults(frame.results);
    }
  });
  const subscription = bus.subscribe(subjects.bulk(key), (delivery) => intake.take(delivery), { exclusive: true });
  return {
    figures,
    address: undefined,
    pushBatch: (batch, batcher, items) => {
      const subject = subjects.bulkReply(batch.executor);
      if (bus.isNear?.(subject) !== true) return false;
      const [rows, ...more] = encodeReply(items, 0, bus.payloadMax);
      if (rows === undefined || more.length > 0) return false;
      const head = headOfPushed(batch, batcher);
      if (head.byteLength + rows.byteLength > bus.payloadMax) return false;
      if (bus.publishNear?.(subject, [head, rows.head, ...rows.body]) === true) return true;
      return bus.publish(subject, joinPushed(head, rows), { owned: true });
    },
    close: (done) => {
      subscription.stop();
      outbox.flush();
      bus.flush(() => done());
    },
  };
}

/** Bytes before the batch: its length, and padding. */
const PUSHED_HEAD_BYTES = 8;

/**
 * A message with a batch and its rows begins with the length of the batch's control frame and that frame. A reply frame
 * follows, as a pull would bring it.
 */
function headOfPushed(batch: BatchDispatched, batcher: ActorKey): Uint8Array {
  const writer = new FrameWriter(batcher);
  writer.add(BatchDispatched, batch);
  const control = writer.take();
  const head = new Uint8Array(PUSHED_HEAD_BYTES + control.byteLength);
  new DataView(head.buffer).setUint32(0, control.byteLength, true);
  head.set(control, PUSHED_HEAD_BYTES);
  return head;
}

function joinPushed(head: Uint8Array, rows: DataFrame): Uint8Array {
  const message = new Uint8Array(head.byteLength + rows.byteLength);
  message.set(head);
  writeFrame(rows, message, head.byteLength);
  return message;
}

/** Reply subject of a pair. One more token would need other permissions: `bulkreply.*` covers this. */
const replySubject = (executorSubject: string, ingress: ActorKey): string =>
  `${executorSubject}-${actorToken(ingress)}`;

/** Ingresses that one executor talks to at once; beyond, pulls fail as unreachable. */
const PEERS_MAX = 4_096;

interface Peer {
  readonly subject: string;
  readonly reply: string;
  readonly subscription: Subscription;
}

/** An executor's client of the ingresses' data planes over NATS. */
export class NatsDataClient implements DataClient {
  readonly figures = noFigures();
  readonly #options: NatsDataOptions;
  readonly #pulls: PendingPulls;
  readonly #later: (run: () => void) => void;
  readonly #peers = new Map<ActorKey, Peer>();
  readonly #outbox: BulkOutbox;
  readonly #status: Subscription;
  #pushed: Subscription | undefined;

  constructor(options: NatsDataOptions) {
    const { later = queueMicrotask, startTimer = startTimeout } = options;
    this.#options = options;
    this.#later = later;
    this.#pulls = new PendingPulls(startTimer);
    this.#outbox = new BulkOutbox(options.bus, options.key, later);
    this.#status = options.bus.onStatus((status) => {
      if (status.kind === "closed") this.#pulls.failAll();
      if (status.kind === "disconnected") this.#failFar();
    });
  }

  /** Replies in flight are lost with the connection, but not those that come over a link. */
  #failFar(): void {
    for (const [key, { subject }] of this.#peers)
      if (this.#options.bus.isNear?.(subject) !== true) this.#pulls.failPeer(key, "unreachable");
  }

  pull({ key }: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const correlation = this.#pulls.open(key, pull.seqs, timeoutMs, done);
    if (correlation === undefined) return this.#later(() => done({ failure: "unreachable" }));
    const peer = this.#peerOf(key);
    this.figures.pulls++;
    if (peer !== undefined && this.#outbox.send(peer.subject, peer.reply, encodePull(pull, correlation))) return;
    this.figures.dropped++;
    this.#later(() => this.#pulls.fail(correlation, "unreachable"));
  }

  #peerOf(key: ActorKey): Peer | undefined {
    const known = this.#peers.get(key);
    if (known !== undefined || this.#peers.size >= PEERS_MAX) return known;
    const subjects = subjectsOf(this.#options.cluster);
    const reply = replySubject(subjects.bulkReply(this.#options.key), key);
    const fault = (text: string): void => {
      this.figures.faults++;
      this.#options.onFault?.(text);
    };
    const intake = new FrameIntake(fault, (frame: DecodedFrame) => {
      if (frame.kind === "reply") this.#pulls.onReply(key, frame);
      else fault(`${frame.kind} is not for an executor`);
    });
    const subscription = this.#options.bus.subscribe(
      reply,
      (delivery) => {
        // An empty payload is the server's 503: nobody subscribes there.
        if (delivery.payload.byteLength === 0) this.#pulls.failPeer(key, "unreachable");
        else intake.take(delivery);
      },
      { exclusive: true },
    );
    const peer = { subject: subjects.bulk(key), reply, subscription };
    this.#peers.set(key, peer);
    return peer;
  }

  push({ key }: DataPeer, results: ResultBatch): void {
    if (this.#pulls.isClosed) return;
    const peer = this.#peerOf(key);
    this.figures.results++;
    for (const frame of encodeResults(results, this.#outbox.runBytes)) {
      if (peer !== undefined && this.#outbox.send(peer.subject, peer.reply, frame)) continue;
      this.figures.dropped++;
      this.#options.onFault?.(`the results of batch ${results.batchId} could not be sent and are dropped`);
    }
    this.#outbox.flush(); // answers don't wait for others that may come in the same turn
  }

  onBatch(listener: Parameters<NonNullable<DataClient["onBatch"]>>[0]): void {
    const { bus, cluster, key } = this.#options;
    const fault = (text: string): void => {
      this.figures.faults++;
      this.#options.onFault?.(text);
    };
    let items: readonly PulledItem[] = [];
    const reader = new FrameReader().on(BatchDispatched, (batch, batcher) => listener(batch, batcher, items));
    this.#pushed = bus.subscribe(
      subjectsOf(cluster).bulkReply(key),
      ({ payload }) => {
        const rows = rowsOfPushed(payload);
        if (typeof rows === "string") return fault(rows);
        items = rows.items;
        const bad = reader.read(rows.control);
        if (bad !== undefined) fault(bad.fault);
      },
      { exclusive: true },
    );
  }

  forget(key: ActorKey): void {
    this.#peers.get(key)?.subscription.stop();
    this.#peers.delete(key);
    this.#pulls.failPeer(key, "unreachable");
  }

  close(done: () => void): void {
    this.#outbox.flush();
    this.#pulls.close();
    this.#status.stop();
    this.#pushed?.stop();
    for (const { subscription } of this.#peers.values()) subscription.stop();
    this.#peers.clear();
    this.#options.bus.flush(() => done());
  }
}

const startTimeout: StartTimer = (delayMs, run) => {
  const timer = setTimeout(run, delayMs);
  return { stop: () => clearTimeout(timer) };
};

/**
 * Uses `near` for an ingress that it reaches without a server, and the other client for all others. Over plain TCP rows
 * are read straight into place, so `far` pulls them, and takes the link itself until TCP is connected (fallbackClient):
 * what is small comes with its batch.
 */
export function nearFirst(
  near: NatsDataClient,
  far: DataClient,
  { bus, cluster }: Pick<NatsDataOptions, "bus" | "cluster">,
): DataClient {
  const subjects = subjectsOf(cluster);
  const wayTo = (key: ActorKey): DataClient => (bus.isNear?.(subjects.bulk(key)) === true ? near : far);
  return {
    pull: (peer, pull, timeoutMs, done) =>
      (peer.address?.tls === false ? far : wayTo(peer.key)).pull(peer, pull, timeoutMs, done),
    push: (peer, results) => wayTo(peer.key).push(peer, results),
    onBatch: (listener) => near.onBatch(listener),
    forget: (key) => {
      near.forget(key);
      far.forget(key);
    },
    close: (done) => far.close(() => near.close(done)),
  };
}

/** @returns the reason why it is none */
function rowsOfPushed(
  payload: Uint8Array,
): { readonly control: Uint8Array; readonly items: readonly PulledItem[] } | string {
  if (payload.byteLength < PUSHED_HEAD_BYTES) return "a batch with rows of a few bytes";
  const controlBytes = new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0, true);
  const end = PUSHED_HEAD_BYTES + controlBytes;
  if (end > payload.byteLength) return "a batch with rows that ends early";
  const frame = decodeFrame(payload.subarray(end));
  if (isFrameFault(frame)) return frame.fault;
  if (frame.kind !== "reply" || frame.forbidden || frame.items.length !== frame.total)
    return "a batch without its rows";
  return { control: payload.subarray(PUSHED_HEAD_BYTES, end), items: frame.items };
}
