import { type Server, type Socket, createServer } from "node:net";
import { hostname } from "node:os";
import { type SecureContext, TLSSocket, createSecureContext } from "node:tls";
import { type DataAddress, TuttiError } from "@tutti/protocol";
import type { DataHandlers, DataServer } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import { type ConnectionOwner, ExecutorConnection } from "./executor-connection.ts";
import { newSecret } from "./hello-proof.ts";
import { ReceiveBudget } from "./receive-budget.ts";

export interface TcpServerOptions {
  readonly key: ActorKey;
  readonly handlers: DataHandlers;
  /** Default: loopback only. Executors are told it, or this machine's name where it means every interface. */
  readonly host?: string;
  /** Default: an ephemeral port. */
  readonly port?: number;
  /** PEM texts. With them the connections are encrypted; clients then need the authority. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Called for each peer that is cut off, with the reason. */
  readonly onFault?: (text: string) => void;
  /** Connections of all executors; those that have not said hello don't count. Default 1,024. */
  readonly connectionsMax?: number;
  /** Bytes of rows that may wait for one executor to read; beyond, it is cut off. Default 256 MB. */
  readonly pendingBytesMax?: number;
  /**
   * Memory of long frames that are being received, over all connections: a frame for which none is left ends its own.
   * Default 512 MB.
   */
  readonly receivingBytesMax?: number;
  /** Interval at which connections are looked at: a hello may take five, a frame ten without growing. Default 1,000. */
  readonly sweepMs?: number;
}

export interface TcpServerFigures {
  connections: number;
  /** Connections cut off: garbage, a wrong hello or none, a frame that is too large, another's key, too slow. */
  faults: number;
  pulls: number;
  forbiddenPulls: number;
  results: number;
}

export interface TcpDataServer extends DataServer {
  readonly figures: Readonly<TcpServerFigures>;
  /** Rejects with a TuttiError UNAVAILABLE where the server can't listen; `address` then stays undefined. */
  readonly listening: Promise<DataAddress>;
}

const CLOSE_MS = 1_000;
/**
 * Connections that have not said hello: a newer one displaces the oldest, unless no sweep has seen that one. An
 * executor says hello at once, so that a flood doesn't take its place before it could.
 */
const STRANGERS_MAX = 128;
/** The same, with those that no sweep has seen: the newest is refused. */
const NEW_STRANGERS_MAX = 1_024;
/**
 * Connections of one executor, which uses one: the others are lost ones that this side has not noticed, and a newer one
 * displaces the oldest. With a frame in each it takes half of the memory at most.
 */
const CONNECTIONS_OF_ONE_MAX = 4;
/** Faults that are told in one interval; the others are counted. */
const TOLD_MAX = 8;
/** A host that went away without a word is noticed by then. */
const KEEPALIVE_MS = 60_000;
const EVERY_INTERFACE = new Set(["0.0.0.0", "::"]);

/**
 * An ingress' data plane over TCP. A connecting executor proves by its hello that it knows the secret of the port,
 * which the ingress' heartbeats carry; its tokens decide which rows it may pull. A peer that sends anything else is cut
 * off and counted; other connections go on.
 *
 *   SERVER-1. Who has no secret costs a bounded number of sockets for a bounded time, and FIRST_FRAME_BYTES_MAX each.
 *   SERVER-2. What executors send takes receivingBytesMax and a chunk for each, and nobody keeps it without sending.
 */
export function serveTcp(options: TcpServerOptions): TcpDataServer {
  return new ListeningServer(options);
}

class ListeningServer implements TcpDataServer, ConnectionOwner {
  readonly figures: TcpServerFigures = {
    connections: 0,
    faults: 0,
    pulls: 0,
    forbiddenPulls: 0,
    results: 0,
  };
  readonly listening: Promise<DataAddress>;
  readonly key: ActorKey;
  readonly handlers: DataHandlers;
  readonly secret = newSecret();
  readonly budget: ReceiveBudget;
  readonly pendingBytesMax: number;
  readonly #options: TcpServerOptions;
  readonly #server: Server;
  readonly #secureContext: SecureContext | undefined;
  /** Connections that have not said hello, the oldest first. */
  readonly #strangers = new Set<ExecutorConnection>();
  readonly #executors = new Set<ExecutorConnection>();
  readonly #sweeper: NodeJS.Timeout;
  #toldFaults = 0;
  #address: DataAddress | undefined;

  constructor(options: TcpServerOptions) {
    this.#options = options;
    this.key = options.key;
    this.handlers = options.handlers;
    this.pendingBytesMax = options.pendingBytesMax ?? 268_435_456;
    this.budget = new ReceiveBudget(options.receivingBytesMax ?? 536_870_912);
    this.#secureContext = options.tls && createSecureContext({ ...options.tls });
    // Handshakes begin here and not in a TLS server, so that a peer counts from its first packet.
    const tcp = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS };
    this.#server = createServer(tcp, (socket) => this.#accept(socket));
    this.#sweeper = setInterval(() => this.#sweep(), options.sweepMs ?? 1_000).unref();
    this.listening = this.#listen();
    this.listening.catch((error: unknown) => options.onFault?.(String(error)));
  }

  get address(): DataAddress | undefined {
    return this.#address;
  }

  #listen(): Promise<DataAddress> {
    const { host = "127.0.0.1", port = 0 } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once("error", (cause) => {
        const text = `the data plane can't listen on ${host}:${port}: ${cause.message}`;
        reject(new TuttiError("TUTTI_UNAVAILABLE", text, { cause }));
      });
      this.#server.listen({ host, port }, () => {
        const bound = this.#server.address();
        if (bound === null || typeof bound === "string") return reject(new TuttiError("TUTTI_UNAVAILABLE", "closed"));
        const told = EVERY_INTERFACE.has(host) ? hostname() : host;
        this.#server.on("error", (error) => this.fault(error.message));
        this.#address = { host: told, port: bound.port, tls: this.#secureContext !== undefined, secret: this.secret };
        resolve(this.#address);
      });
    });
  }

  #accept(socket: Socket): void {
    const secureContext = this.#secureContext;
    const stream = secureContext === undefined ? socket : new TLSSocket(socket, { isServer: true, secureContext });
    const connection = new ExecutorConnection(this, stream);
    this.figures.connections++;
    stream.on("close", () => this.#onClosed(connection));
    this.#strangers.add(connection);
    for (const oldest of this.#strangers) {
      if (this.#strangers.size <= STRANGERS_MAX || oldest.isNew) break;
      this.#strangers.delete(oldest);
      oldest.cutOff("it has not said hello, and newer connections need its place");
    }
    if (this.#strangers.size <= NEW_STRANGERS_MAX) return;
    this.#strangers.delete(connection);
    connection.cutOff(`${NEW_STRANGERS_MAX} connections have not said hello, which is the most`);
  }

  #onClosed(connection: ExecutorConnection): void {
    this.#strangers.delete(connection);
    this.#executors.delete(connection);
  }

  admit(connection: ExecutorConnection, executor: number): string | undefined {
    const connectionsMax = this.#options.connectionsMax ?? 1_024;
    const isFull = this.#executors.size >= connectionsMax;
    const own = [...this.#executors].filter((other) => other.executor === executor);
    const [oldest] = own;
    if (oldest === undefined && isFull) return `executors have ${connectionsMax} connections, which is the most`;
    if (oldest !== undefined && (isFull || own.length >= CONNECTIONS_OF_ONE_MAX)) {
      this.#executors.delete(oldest);
      oldest.cutOff("newer connections of this executor need its place");
    }
    this.#strangers.delete(connection);
    this.#executors.add(connection);
    return undefined;
  }

  #sweep(): void {
    const untold = this.#toldFaults - TOLD_MAX;
    this.#toldFaults = 0;
    if (untold > 0) this.#options.onFault?.(`${untold} more peers were cut off`);
    for (const connection of this.#strangers) connection.sweep();
    for (const connection of this.#executors) connection.sweep();
  }

  fault(text: string): void {
    this.figures.faults++;
    if (++this.#toldFaults <= TOLD_MAX) this.#options.onFault?.(text);
  }

  close(done: () => void): void {
    this.#address = undefined;
    clearInterval(this.#sweeper);
    for (const { socket } of this.#strangers) socket.destroy();
    const timer = setTimeout(() => {
      for (const { socket } of this.#executors) socket.destroy();
    }, CLOSE_MS);
    const finished = (): void => {
      clearTimeout(timer);
      done();
    };
    this.#server.close(finished); // also calls back if it never listened
    for (const connection of this.#executors) connection.end();
  }
}
