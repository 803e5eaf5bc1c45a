/**
 * The data plane over a Bus: pulls and results to the ingress' bulk subject, replies to a subject for this pair of executor and ingress. One
 * subscription and integer correlations instead of requests (docs/architecture.md, 8); a reply subject of the pair's own tells from whom "no
 * responders" comes. What is larger than one message travels in fragments.
 */
import type { Bus, Delivery, Subscription } from "@tutti/bus";
import { type PullRequest, type PulledItem, type ResultBatch, subjectsOf } from "@tutti/protocol";
import {
  type DataClient,
  type DataHandlers,
  type DataPeer,
  type DataServer,
  PendingPulls,
  type PullOutcome,
} from "@tutti/pull";
import { type ActorKey, actorToken } from "@tutti/units";
import { type DecodedFrame, encodePull, encodeReply, encodeResults } from "@tutti/wire";
import { BulkOutbox } from "./bulk-outbox.ts";
import { FrameIntake } from "./frame-intake.ts";

export interface NatsDataOptions {
  /** The connection for bulk data, never the one for control. */
  readonly bus: Bus;
  readonly cluster: string;
  /** The ingress', or the executor's. */
  readonly key: ActorKey;
  readonly onFault?: (text: string) => void;
}

export interface NatsDataFigures {
  pulls: number;
  results: number;
  forbiddenPulls: number;
  /** Messages that were no frames, or not meant for us. */
  faults: number;
  /** Pulls, replies and results that the bus did not take. */
  dropped: number;
}
const noFigures = (): NatsDataFigures => ({ pulls: 0, results: 0, forbiddenPulls: 0, faults: 0, dropped: 0 });

export interface NatsDataServer extends DataServer {
  readonly figures: Readonly<NatsDataFigures>;
}

/** Serves an ingress' data plane over NATS; beside a TCP server with the same handlers, where there is one. */
export function serveNats(options: NatsDataOptions & { readonly handlers: DataHandlers }): NatsDataServer {
  const { bus, cluster, key, handlers } = options;
  const subjects = subjectsOf(cluster);
  const figures = noFigures();
  const fault = (text: string): void => {
    figures.faults++;
    options.onFault?.(text);
  };
  const outbox = new BulkOutbox(bus, key);

  const onPull = (correlation: number, pull: PullRequest, delivery: Delivery): void => {
    // Only to where this executor listens: a reply subject of the sender's choosing could be anybody's.
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
    close: (done) => {
      subscription.stop();
      outbox.flush();
      bus.flush(() => done());
    },
  };
}

/** One token more would need other permissions: `bulkreply.*` covers this. */
const replySubject = (executorSubject: string, ingress: ActorKey): string =>
  `${executorSubject}-${actorToken(ingress)}`;

/** Ingresses that one executor talks to at once; beyond, pulls fail as unreachable. */
const PEERS_MAX = 4_096;

interface Peer {
  readonly subject: string;
  readonly reply: string;
  readonly subscription: Subscription;
}

/** An executor's way to the ingresses over NATS. */
export class NatsDataClient implements DataClient {
  readonly figures = noFigures();
  readonly #options: NatsDataOptions;
  readonly #pulls = new PendingPulls((delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return { stop: () => clearTimeout(timer) };
  });
  readonly #peers = new Map<ActorKey, Peer>();
  readonly #outbox: BulkOutbox;
  readonly #status: Subscription;

  constructor(options: NatsDataOptions) {
    this.#options = options;
    this.#outbox = new BulkOutbox(options.bus, options.key);
    this.#status = options.bus.onStatus((status) => {
      // Replies that were under way are lost with the connection.
      if (status.kind === "disconnected" || status.kind === "closed") this.#pulls.failAll();
    });
  }

  pull({ key }: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const correlation = this.#pulls.open(key, pull.seqs, timeoutMs, done);
    if (correlation === undefined) return queueMicrotask(() => done({ failure: "unreachable" }));
    const peer = this.#peerOf(key);
    this.figures.pulls++;
    if (peer !== undefined && this.#outbox.send(peer.subject, peer.reply, encodePull(pull, correlation))) return;
    this.figures.dropped++;
    queueMicrotask(() => this.#pulls.fail(correlation, "unreachable"));
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
        // The server's own word that nobody subscribes there.
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
    for (const { subscription } of this.#peers.values()) subscription.stop();
    this.#peers.clear();
    this.#options.bus.flush(() => done());
  }
}
