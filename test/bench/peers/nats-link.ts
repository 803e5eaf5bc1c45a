/** The part of the NATS protocol that a publisher of requests needs, on one connection. */
import { type Socket, connect } from "node:net";
import type { Transport, TransportEvents } from "./http-pool.ts";

export interface NatsMessage {
  readonly subject: string;
  readonly headerBytes: number;
  /** Headers and payload. */
  readonly bytes: Buffer;
}

export interface NatsLinkOptions<Request> {
  readonly port: number;
  readonly messageOf: (request: Request) => NatsMessage;
  readonly events: TransportEvents<Request>;
}

const CRLF = Buffer.from("\r\n");
const STATUS = Buffer.from("Nats-Service-Error-Code");

export class NatsLink<Request> implements Transport<Request> {
  readonly #options: NatsLinkOptions<Request>;
  readonly #socket: Socket;
  readonly #inbox = `_INBOX.${process.pid}${Math.floor(performance.timeOrigin)}`;
  readonly #requests = new Map<number, Request>();
  #last = 0;
  #rest: Buffer = Buffer.alloc(0);
  #isFlushing = false;

  constructor(options: NatsLinkOptions<Request>) {
    this.#options = options;
    this.#socket = connect(options.port, "127.0.0.1").setNoDelay(true);
    this.#socket.on("error", () => undefined); // "close" follows
    this.#socket.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#socket.once("close", () => {
      for (const request of this.#requests.values()) options.events.lost(request);
      this.#requests.clear();
    });
    const hello = JSON.stringify({ verbose: false, pedantic: false, headers: true, no_responders: true, lang: "node" });
    this.#socket.write(`CONNECT ${hello}\r\nSUB ${this.#inbox}.* 1\r\n`);
  }

  send(request: Request): void {
    if (this.#socket.destroyed) return this.#options.events.lost(request);
    const { subject, headerBytes, bytes } = this.#options.messageOf(request);
    const id = ++this.#last;
    this.#requests.set(id, request);
    this.#corkOnce();
    this.#socket.write(`HPUB ${subject} ${this.#inbox}.${id} ${headerBytes} ${bytes.byteLength}\r\n`);
    this.#socket.write(bytes);
    this.#socket.write(CRLF);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Requests of one turn of the event loop leave with one system call. */
  #corkOnce(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    this.#socket.cork();
    process.nextTick(() => {
      this.#isFlushing = false;
      this.#socket.uncork();
    });
  }

  #read(chunk: Buffer): void {
    const all = this.#rest.byteLength === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (;;) {
      const lineEnd = all.indexOf(CRLF, at);
      if (lineEnd < 0) break;
      const line = all.toString("latin1", at, lineEnd);
      const words = line.split(" ");
      if (words[0] !== "MSG" && words[0] !== "HMSG") {
        if (words[0] === "PING") this.#socket.write("PONG\r\n");
        at = lineEnd + 2;
        continue;
      }
      const total = Number(words.at(-1));
      const end = lineEnd + 2 + total;
      if (all.byteLength < end + 2) break;
      const headed = words[0] === "HMSG" ? Number(words.at(-2)) : 0;
      this.#settle(words[1]!, all.subarray(lineEnd + 2, lineEnd + 2 + headed), all.subarray(lineEnd + 2 + headed, end));
      at = end + 2;
    }
    this.#rest = all.subarray(at);
  }

  #settle(subject: string, headers: Buffer, body: Buffer): void {
    const id = Number(subject.slice(this.#inbox.length + 1));
    const request = this.#requests.get(id);
    if (request === undefined) return;
    this.#requests.delete(id);
    // "NATS/1.0 503" is the server's own answer: there is no subscriber.
    const isOk = !headers.includes(STATUS) && !headers.subarray(0, 10).includes(" ");
    this.#options.events.answered(request, { isOk, body, rawAt: body.byteLength });
  }
}
