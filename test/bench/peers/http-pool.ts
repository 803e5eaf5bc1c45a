/** HTTP/1.1 on raw sockets: one request at a time on each, opened on demand, kept open for a while. */
import { type Socket, connect } from "node:net";
import { type Answer, readHttpAnswer } from "./answers.ts";

export interface Transport<Request> {
  /** @param bytes - the result of `encode`: not copied */
  send(request: Request): void;
  close(): void;
}

export interface TransportEvents<Request> {
  answered(request: Request, answer: Answer): void;
  /** Its connection broke before its answer came. */
  lost(request: Request): void;
}

export interface HttpPoolOptions<Request> {
  readonly port: number;
  readonly bytesOf: (request: Request) => Buffer;
  readonly events: TransportEvents<Request>;
}

const SOCKETS_MAX = 2_000;
/** Idle time of a connection, shorter than servers keep theirs (usually 5 s), so that none closes under a request. */
const IDLE_MS_MAX = 2_000;

export class HttpPool<Request> implements Transport<Request> {
  readonly #options: HttpPoolOptions<Request>;
  readonly #all = new Set<Connection<Request>>();
  /** Idle connections; the last used is used next. */
  readonly #idle: Connection<Request>[] = [];
  readonly #waiting: Request[] = [];

  constructor(options: HttpPoolOptions<Request>) {
    this.#options = options;
  }

  get sockets(): number {
    return this.#all.size;
  }

  send(request: Request): void {
    const connection = this.#free();
    if (connection === undefined) this.#waiting.push(request);
    else connection.send(request, this.#options.bytesOf(request));
  }

  close(): void {
    for (const connection of this.#all) connection.destroy();
  }

  #free(): Connection<Request> | undefined {
    const last = this.#idle.pop();
    if (last !== undefined && performance.now() - last.idleSinceMs <= IDLE_MS_MAX) return last;
    // All others have been idle for longer.
    for (const old of last === undefined ? [] : [last, ...this.#idle.splice(0)]) old.destroy();
    return this.#all.size < SOCKETS_MAX ? this.#open() : undefined;
  }

  #open(): Connection<Request> {
    const connection: Connection<Request> = new Connection<Request>(this.#options.port, {
      answered: (request, answer) => {
        this.#options.events.answered(request, answer);
        const next = this.#waiting.shift();
        if (next === undefined) this.#idle.push(connection);
        else connection.send(next, this.#options.bytesOf(next));
      },
      lost: (request) => this.#options.events.lost(request),
      closed: () => {
        this.#all.delete(connection);
        const at = this.#idle.indexOf(connection);
        if (at >= 0) this.#idle.splice(at, 1);
        const next = this.#waiting.shift();
        if (next !== undefined) this.send(next);
      },
    });
    this.#all.add(connection);
    return connection;
  }
}

interface ConnectionEvents<Request> extends TransportEvents<Request> {
  closed(): void;
}

class Connection<Request> {
  readonly #socket: Socket;
  readonly #events: ConnectionEvents<Request>;
  #request: Request | undefined;
  #chunks: Buffer[] = [];
  idleSinceMs = 0;

  constructor(port: number, events: ConnectionEvents<Request>) {
    this.#events = events;
    this.#socket = connect(port, "127.0.0.1").setNoDelay(true);
    this.#socket.on("error", () => undefined); // "close" follows
    this.#socket.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#socket.once("close", () => {
      const under = this.#request;
      this.#request = undefined;
      events.closed();
      if (under !== undefined) events.lost(under);
    });
  }

  send(request: Request, bytes: Buffer): void {
    this.#request = request;
    this.#socket.write(bytes);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const request = this.#request;
    // No request is under way: for example Node's 408 to a silent connection, before it is closed.
    if (request === undefined) return this.destroy();
    this.#chunks.push(chunk);
    const all = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    const answer = readHttpAnswer(all);
    if (answer === undefined) {
      this.#chunks = [all];
      return;
    }
    this.#chunks = [];
    this.#request = undefined;
    this.idleSinceMs = performance.now();
    this.#events.answered(request, answer);
  }
}
