import { type Delivery, isHeader } from "@tutti/ports/bus";
import type { Msg, MsgHdrs } from "@nats-io/transport-node";

/** A smaller part of its memory than this is copied: kept, it would hold the rest. */
const OWNED_SHARE = 2;

/** A message of the client library. Subject, reply and headers are decoded only on access (each costs 0.1 to 1 µs). */
export class NatsDelivery implements Delivery {
  readonly #message: Msg;
  #payload: Uint8Array | undefined;

  constructor(message: Msg) {
    this.#message = message;
  }

  get subject(): string {
    return this.#message.subject;
  }
  /** A plain Uint8Array, never a Buffer, whose `slice` shares memory: `payload.slice()` must be a copy. */
  get payload(): Uint8Array {
    return (this.#payload ??= plain(this.#message.data));
  }
  /**
   * The socket reads into new memory each time, and a message that spans several reads is put together in memory of its
   * own, up to 2.4 times as long.
   */
  get isOwned(): boolean {
    const { payload } = this;
    return payload.byteLength * OWNED_SHARE >= payload.buffer.byteLength;
  }
  get reply(): string | undefined {
    const reply = this.#message.reply;
    return reply === "" ? undefined : reply;
  }

  get headerBytes(): number {
    const { subject, reply = "", data } = this.#message;
    // `size` belongs to the library's class, not to its interface: with a version that lacks it, headers are not
    // counted.
    const { size } = this.#message as { readonly size?: () => number };
    const whole = size?.call(this.#message) ?? 0;
    return Math.max(0, whole - subject.length - reply.length - data.length);
  }

  get headersUnreadable(): boolean {
    return headersOf(this.#message) === UNREADABLE;
  }

  header(name: string): string | undefined {
    const headers = headersOf(this.#message);
    if (headers === undefined || headers === UNREADABLE) return undefined;
    for (const [key, values] of headers) if (key === name) return values[0];
    return name === "Status" && headers.code > 0 ? String(headers.code) : undefined;
  }
}

const plain = (data: Uint8Array): Uint8Array =>
  data.constructor === Uint8Array ? data : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

const UNREADABLE = "unreadable";

/**
 * Reads the headers, or UNREADABLE. The library throws for names and values that it would not write itself, and a
 * server passes all on.
 */
function headersOf(message: Msg): MsgHdrs | typeof UNREADABLE | undefined {
  try {
    return message.headers;
  } catch {
    return UNREADABLE;
  }
}

export function isNoResponders(message: Msg): boolean {
  if (message.data.length > 0) return false;
  const headers = headersOf(message);
  return headers !== UNREADABLE && headers?.code === 503;
}

/**
 * Headers of an outgoing message. The library's own class spends 1 µs on a canonical form of each name that nobody
 * uses; the library calls only `encode()` on them.
 */
export class OutgoingHeaders {
  readonly #bytes: Uint8Array;

  /** @returns undefined if a name or value would break the frame (a line break, a colon in a name, an empty name) */
  static of(headers: Readonly<Record<string, string>>): OutgoingHeaders | undefined {
    let text = "NATS/1.0\r\n";
    for (const name of Object.keys(headers)) {
      const value = headers[name] ?? "";
      if (!isHeader(name, value)) return undefined;
      text += `${name}: ${value}\r\n`;
    }
    return new OutgoingHeaders(text + "\r\n");
  }

  private constructor(text: string) {
    this.#bytes = Buffer.from(text, "utf8");
  }

  get length(): number {
    return this.#bytes.length;
  }
  encode(): Uint8Array {
    return this.#bytes;
  }
  asMsgHdrs(): MsgHdrs {
    return this as unknown as MsgHdrs;
  }
}
