import { type Socket, connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import type { DataAddress, PullRequest, ResultBatch } from "@tutti/protocol";
import { type DataPeer, type DirectClient, PendingPulls, type PullOutcome } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import { type WelcomeFrame, decodeFrame, encodeHello, encodePull, encodeResults, isFrameFault } from "@tutti/wire";
import { FrameAssembler } from "./frame-assembler.ts";
import { FrameSocket } from "./frame-socket.ts";
import { isProof, proofOf } from "./hello-proof.ts";
import { ReceiveBudget } from "./receive-budget.ts";

export interface TcpClientOptions {
  /** The executor's key. */
  readonly key: ActorKey;
  /** Time limit from connecting until the ingress' welcome. Default 1,000. */
  readonly connectTimeoutMs?: number;
  /** Time after which an unused connection is closed. Default 60,000. */
  readonly idleMs?: number;
  /** Silence after which a connection whose pulls time out counts as dead. Default 1,000. */
  readonly silenceMs?: number;
  /**
   * The authority that signed the ingresses' certificates, PEM; with it, an ingress without TLS is never connected to.
   * Default: the system's.
   */
  readonly ca?: string;
  /**
   * Bytes of pulls and results that may wait for one ingress to read; beyond, they are dropped and reported. Default 64
   * MB.
   */
  readonly pendingBytesMax?: number;
  /**
   * Memory of long replies that are being received, over all connections: a reply for which none is left ends its own.
   * Default 1 GB.
   */
  readonly receivingBytesMax?: number;
  /** Called for each connection that fails and each push that is dropped. */
  readonly onFault?: (text: string) => void;
}

export interface TcpClientFigures {
  connects: number;
  /** Connections that failed or broke. */
  failures: number;
  pulls: number;
  pushes: number;
  /** Results that were not sent: no connection, or too much waits already. */
  droppedPushes: number;
}

/** An executor's client of the ingresses over TCP: one connection each, made when it is first needed. */
export class TcpDataClient implements DirectClient {
  readonly figures: TcpClientFigures = { connects: 0, failures: 0, pulls: 0, pushes: 0, droppedPushes: 0 };
  readonly options: TcpClientOptions;
  readonly budget: ReceiveBudget;
  readonly pulls = new PendingPulls((delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return { stop: () => clearTimeout(timer) };
  });
  readonly #connections = new Map<ActorKey, IngressConnection>();
  readonly #idleTimer: NodeJS.Timeout;

  constructor(options: TcpClientOptions) {
    this.options = options;
    this.budget = new ReceiveBudget(options.receivingBytesMax ?? 1_073_741_824);
    const idleMs = options.idleMs ?? 60_000;
    this.#idleTimer = setInterval(() => {
      for (const connection of this.#connections.values()) connection.closeIfIdle(idleMs);
    }, idleMs / 2).unref();
  }

  /** Connections that are up or being made. */
  get connections(): number {
    return this.#connections.size;
  }

  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const connection = this.#connectionTo(peer);
    const correlation = this.pulls.open(peer.key, pull.seqs, timeoutMs, (outcome) => {
      if ("failure" in outcome && outcome.failure === "timeout") connection?.onTimeout();
      done(outcome);
    });
    if (correlation === undefined) return queueMicrotask(() => done({ failure: "unreachable" }));
    this.figures.pulls++;
    if (connection?.pull(pull, correlation) !== true) queueMicrotask(() => this.pulls.fail(correlation, "unreachable"));
  }

  push(peer: DataPeer, results: ResultBatch): void {
    this.#send(this.#connectionTo(peer), results);
  }

  isConnected({ key, address }: DataPeer): boolean {
    const connection = this.#connections.get(key);
    return connection?.isWelcome === true && (address === undefined || connection.leadsTo(address));
  }

  connect(peer: DataPeer, done: (isUp: boolean) => void): void {
    const connection = this.#connectionTo(peer);
    if (connection === undefined) queueMicrotask(() => done(false));
    else connection.whenSettled(done);
  }

  tryPush(peer: DataPeer, results: ResultBatch): boolean {
    const connection = this.#connections.get(peer.key);
    if (connection?.isWelcome !== true) return false;
    this.#send(connection, results);
    return true;
  }

  #send(connection: IngressConnection | undefined, results: ResultBatch): void {
    this.figures.pushes++;
    if (connection?.push(results) === true) return;
    this.figures.droppedPushes++;
    this.options.onFault?.(`the results of batch ${results.batchId} could not be sent and are dropped`);
  }

  #connectionTo({ key, address }: DataPeer): IngressConnection | undefined {
    const known = this.#connections.get(key);
    if (address === undefined || this.pulls.isClosed) return known;
    // With an authority nothing goes in plain text, whatever a heartbeat claims.
    if (!address.tls && this.options.ca !== undefined) return undefined;
    if (known?.leadsTo(address) === true) return known;
    const { secret } = address;
    if (secret === undefined) return undefined;
    const connection = new IngressConnection(this, key, { ...address, secret });
    this.#connections.set(key, connection);
    this.figures.connects++;
    known?.destroy(); // It listens elsewhere now. Last: pulls that waited there fail now and may retry at once.
    return connection;
  }

  /** Called once by a connection that has ended, in whatever way. */
  onGone(connection: IngressConnection, failure: string | undefined): void {
    if (this.#connections.get(connection.peer) === connection) this.#connections.delete(connection.peer);
    if (failure !== undefined) {
      this.figures.failures++;
      this.options.onFault?.(`${connection.address.host}:${connection.address.port}: ${failure}`);
    }
    this.pulls.failPeer(connection.peer, "unreachable");
  }

  forget(key: ActorKey): void {
    this.#connections.get(key)?.destroy();
  }

  close(done: () => void): void {
    clearInterval(this.#idleTimer);
    this.pulls.close();
    let open = this.#connections.size + 1;
    const closed = (): void => {
      if (--open === 0) done();
    };
    for (const connection of [...this.#connections.values()]) connection.end(closed);
    queueMicrotask(closed);
  }
}

const CLOSE_MS = 1_000;
/** Rows of a model come again: the buffer of a usual batch is kept for the next. */
const KEPT_BYTES = 33_554_432;

class IngressConnection {
  readonly peer: ActorKey;
  readonly address: DataAddress & { readonly secret: string };
  readonly #client: TcpDataClient;
  readonly #frames: FrameSocket;
  readonly #assembler = new FrameAssembler();
  readonly #helloTimer: NodeJS.Timeout;
  #isWelcome = false;
  #isGone = false;
  /** Wait for the welcome, or for the end. */
  #waiting: ((isUp: boolean) => void)[] = [];
  #usedAt = performance.now();
  /** When the first pull since #heardAt was sent. */
  #waitingSince = 0;
  #heardAt = 0;

  constructor(client: TcpDataClient, peer: ActorKey, address: IngressConnection["address"]) {
    this.#client = client;
    this.peer = peer;
    this.address = address;
    const { options } = client;
    this.#frames = new FrameSocket(this.#connect(options.ca), options.pendingBytesMax ?? 67_108_864);
    this.#helloTimer = setTimeout(() => this.#fail("no welcome in time"), options.connectTimeoutMs ?? 1_000);
    const { socket } = this.#frames;
    socket.on("error", (error) => this.#fail(error.message));
    socket.on("close", () => {
      this.#assembler.close();
      this.#gone(this.#isWelcome ? "the connection was closed" : "the connection was refused");
    });
    this.#frames.send(encodeHello(options.key, peer, proofOf(address.secret, "hello", options.key, peer)), "kept");
  }

  /** Over plain TCP the socket reads straight into the assembler: no buffer per read, no copy. */
  #connect(ca: string | undefined): Socket {
    const { host, port, tls } = this.address;
    if (tls) {
      const socket = connectTls({ host, port, ...(ca !== undefined && { ca }) });
      return socket.on("data", (chunk: Uint8Array) => {
        this.#onRead();
        if (!this.#assembler.take(chunk, this.#onFrame)) this.#fail(this.#assembler.fault);
      });
    }
    const callback = (count: number): boolean => {
      this.#onRead();
      if (!this.#assembler.filled(count, this.#onFrame)) this.#fail(this.#assembler.fault);
      return true;
    };
    return connectTcp({ host, port, noDelay: true, onread: { buffer: () => this.#assembler.space(), callback } });
  }

  get isWelcome(): boolean {
    return this.#isWelcome && !this.#isGone;
  }

  leadsTo({ host, port }: DataAddress): boolean {
    return this.address.host === host && this.address.port === port;
  }

  whenSettled(done: (isUp: boolean) => void): void {
    if (this.#isWelcome || this.#isGone) queueMicrotask(() => done(this.isWelcome));
    else this.#waiting.push(done);
  }

  #settle(): void {
    for (const done of this.#waiting.splice(0)) done(this.isWelcome);
  }

  #onRead(): void {
    this.#heardAt = performance.now();
  }

  readonly #onFrame = (bytes: Uint8Array): boolean => {
    const frame = decodeFrame(bytes);
    if (isFrameFault(frame)) this.#fail(frame.fault);
    else if (frame.kind === "reply" && this.#isWelcome) this.#client.pulls.onReply(this.peer, frame);
    else if (frame.kind !== "welcome") this.#fail(`${frame.kind} is not for an executor`);
    else this.#onWelcome(frame);
    return !this.#isGone;
  };

  /** An ingress proves that it is meant: another process may have its port by now, and must get no outputs. */
  #onWelcome({ ingress, proof }: WelcomeFrame): void {
    const { budget, options } = this.#client;
    if (ingress !== this.peer) return this.#fail(`another ingress, ${ingress}, listens there`);
    if (!isProof(proof, proofOf(this.address.secret, "welcome", options.key, ingress)))
      return this.#fail("who listens there doesn't know the ingress' secret");
    this.#assembler.admit(budget, KEPT_BYTES);
    this.#isWelcome = true;
    clearTimeout(this.#helloTimer);
    this.#settle();
  }

  pull(pull: PullRequest, correlation: number): boolean {
    this.#usedAt = performance.now();
    if (this.#waitingSince <= this.#heardAt) this.#waitingSince = this.#usedAt;
    return this.#frames.send(encodePull(pull, correlation), "kept");
  }

  push(results: ResultBatch): boolean {
    this.#usedAt = performance.now();
    for (const frame of encodeResults(results)) if (!this.#frames.send(frame, "borrowed")) return false;
    return true;
  }

  /** Fails the connection after a long silence: the other end may be gone, and the next pull then connects again. */
  onTimeout(): void {
    const silentMs = performance.now() - Math.max(this.#waitingSince, this.#heardAt);
    if (silentMs >= (this.#client.options.silenceMs ?? 1_000))
      this.#fail(`nothing came for ${Math.round(silentMs)} ms`);
  }

  /**
   * Closes an unused connection. One that waits for a welcome or a reply isn't idle, however long that takes: a
   * time-out ends it.
   */
  closeIfIdle(idleMs: number): void {
    if (!this.#isWelcome || this.#client.pulls.waitsFor(this.peer)) return;
    if (performance.now() - Math.max(this.#usedAt, this.#heardAt) >= idleMs) this.destroy();
  }

  end(closed: () => void): void {
    const timer = setTimeout(() => this.#frames.socket.destroy(), CLOSE_MS);
    this.#frames.socket.once("close", () => {
      clearTimeout(timer);
      closed();
    });
    this.#gone(undefined);
    this.#frames.flush();
    this.#frames.socket.destroySoon();
  }

  destroy(): void {
    this.#frames.socket.destroy();
    this.#gone(undefined);
  }

  #fail(failure: string): void {
    this.#frames.socket.destroy();
    this.#gone(failure);
  }

  #gone(failure: string | undefined): void {
    if (this.#isGone) return;
    this.#isGone = true;
    clearTimeout(this.#helloTimer);
    this.#client.onGone(this, failure);
    this.#settle();
  }
}
