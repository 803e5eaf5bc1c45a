import { type Server, type Socket, createServer } from "node:net";
import { hostname } from "node:os";
import { createServer as createTlsServer } from "node:tls";
import { type DataAddress, type PulledItem, TuttiError } from "@tutti/protocol";
import { type DataHandlers, type DataServer, PULLS_MAX } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import { type DecodedFrame, decodeFrame, encodeReply, encodeWelcome, isFrameFault } from "@tutti/wire";
import { FrameAssembler } from "./frame-assembler.ts";
import { FrameSocket } from "./frame-socket.ts";

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
  /** Default 1,024; beyond, connections are closed at once. */
  readonly connectionsMax?: number;
  /** Bytes of rows that may wait for one executor to read; beyond, it is cut off. Default 256 MB. */
  readonly pendingBytesMax?: number;
  /**
   * Memory of half-received frames over all connections; beyond, the connection that asks for more is cut off. Default
   * 512 MB.
   */
  readonly receivingBytesMax?: number;
}

export interface TcpServerFigures {
  connections: number;
  /** Connections refused beyond connectionsMax. */
  refusedConnections: number;
  /** Connections cut off: garbage, a frame that is too large, another executor's key, no hello in time, too slow. */
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

const HELLO_MS = 5_000;
const CLOSE_MS = 1_000;
const EVERY_INTERFACE = new Set(["0.0.0.0", "::"]);

/**
 * An ingress' data plane over TCP. A connecting executor identifies itself with a hello; its tokens decide which rows
 * it may pull. A peer that sends anything else is cut off and counted; other connections go on.
 */
export function serveTcp(options: TcpServerOptions): TcpDataServer {
  return new ListeningServer(options);
}

class ListeningServer implements TcpDataServer {
  readonly figures: TcpServerFigures = {
    connections: 0,
    refusedConnections: 0,
    faults: 0,
    pulls: 0,
    forbiddenPulls: 0,
    results: 0,
  };
  readonly listening: Promise<DataAddress>;
  readonly options: TcpServerOptions;
  readonly #server: Server;
  readonly #connections = new Set<ExecutorConnection>();
  #address: DataAddress | undefined;

  constructor(options: TcpServerOptions) {
    this.options = options;
    const accept = (socket: Socket): void => this.#accept(socket);
    this.#server = options.tls ? createTlsServer({ ...options.tls }, accept) : createServer({ noDelay: true }, accept);
    this.#server.on("tlsClientError", (error) => this.fault(`TLS: ${error.message}`));
    this.listening = this.#listen();
    this.listening.catch((error: unknown) => options.onFault?.(String(error)));
  }

  get address(): DataAddress | undefined {
    return this.#address;
  }

  #listen(): Promise<DataAddress> {
    const { host = "127.0.0.1", port = 0 } = this.options;
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
        this.#address = { host: told, port: bound.port, tls: this.options.tls !== undefined };
        resolve(this.#address);
      });
    });
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= (this.options.connectionsMax ?? 1_024)) {
      this.figures.refusedConnections++;
      socket.destroy();
      return;
    }
    const connection = new ExecutorConnection(this, socket);
    this.#connections.add(connection);
    this.figures.connections++;
    socket.on("close", () => this.#connections.delete(connection));
  }

  /** Half-received frames of all connections. */
  receivingBytes(): number {
    let bytes = 0;
    for (const connection of this.#connections) bytes += connection.receivingBytes;
    return bytes;
  }

  fault(text: string): void {
    this.figures.faults++;
    this.options.onFault?.(text);
  }

  close(done: () => void): void {
    this.#address = undefined;
    const timer = setTimeout(() => {
      for (const { socket } of this.#connections) socket.destroy();
    }, CLOSE_MS);
    const finished = (): void => {
      clearTimeout(timer);
      done();
    };
    this.#server.close(finished); // also calls back if it never listened
    for (const connection of this.#connections) connection.end();
  }
}

class ExecutorConnection {
  readonly #server: ListeningServer;
  readonly #frames: FrameSocket;
  readonly #assembler = new FrameAssembler();
  readonly #helloTimer: NodeJS.Timeout;
  #executor = 0;
  #unanswered = 0;

  constructor(server: ListeningServer, socket: Socket) {
    this.#server = server;
    this.#frames = new FrameSocket(socket, server.options.pendingBytesMax ?? 268_435_456);
    this.#helloTimer = setTimeout(() => this.#cutOff("no hello in time"), HELLO_MS);
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => clearTimeout(this.#helloTimer));
    socket.on("data", (chunk) => this.#onData(chunk));
  }

  get socket(): Socket {
    return this.#frames.socket;
  }
  get receivingBytes(): number {
    return this.#assembler.capacity;
  }

  #onData(chunk: Uint8Array): void {
    const before = this.#assembler.capacity;
    if (!this.#assembler.take(chunk, this.#onFrame) && !this.socket.destroyed) return this.#cutOff("no frames");
    if (this.#assembler.capacity <= before) return;
    if (this.#server.receivingBytes() > (this.#server.options.receivingBytesMax ?? 536_870_912))
      this.#cutOff("too many bytes of half-received frames");
  }

  readonly #onFrame = (bytes: Uint8Array): boolean => {
    const frame = decodeFrame(bytes);
    const fault = isFrameFault(frame)
      ? frame.fault
      : this.#executor === 0
        ? this.#onHello(frame)
        : this.#onDecoded(frame);
    if (fault !== undefined) this.#cutOff(fault);
    return !this.socket.destroyed;
  };

  /** @returns the problem with the hello, if any */
  #onHello(frame: DecodedFrame): string | undefined {
    if (frame.kind !== "hello") return `${frame.kind} before hello`;
    if (frame.ingress !== this.#server.options.key) return `hello to another ingress, ${frame.ingress}`;
    this.#executor = frame.executor;
    clearTimeout(this.#helloTimer);
    this.#frames.send(encodeWelcome(this.#server.options.key), "kept");
    return undefined;
  }

  #onDecoded(frame: DecodedFrame): string | undefined {
    const { figures, options } = this.#server;
    if (frame.kind === "results") {
      if (frame.results.executor !== this.#executor) return "results in the name of another executor";
      figures.results++;
      options.handlers.onResults(frame.results);
      return undefined;
    }
    if (frame.kind !== "pull") return `${frame.kind} is not for an ingress`;
    if (frame.pull.executor !== this.#executor) return "a pull in the name of another executor";
    if (this.#unanswered >= PULLS_MAX) return `more than ${PULLS_MAX} pulls at once`;
    figures.pulls++;
    this.#unanswered++;
    let replied = false;
    options.handlers.onPull(frame.pull, (items) => {
      if (replied) return;
      replied = true;
      this.#unanswered--;
      this.#reply(frame.correlation, items);
    });
    return undefined;
  }

  #reply(correlation: number, items: readonly PulledItem[] | undefined): void {
    if (items === undefined) this.#server.figures.forbiddenPulls++;
    if (!this.socket.writable) return;
    for (const frame of encodeReply(items, correlation))
      if (!this.#frames.send(frame, "kept")) return this.#cutOff("it doesn't read what it pulled");
  }

  #cutOff(reason: string): void {
    if (this.socket.destroyed) return;
    const { remoteAddress, remotePort } = this.socket;
    this.#server.fault(`${remoteAddress}:${remotePort} (executor ${this.#executor}) is cut off: ${reason}`);
    this.socket.destroy();
  }

  /** Closes the connection once the queued replies are sent. */
  end(): void {
    this.#frames.flush();
    this.socket.destroySoon();
  }
}
