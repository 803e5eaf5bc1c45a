import type { LinkMessage } from "@tutti/ports/bus";
import type { DataFrame } from "@tutti/wire";

/**
 * Messages of a link as bytes. Each has its length (uint32), kind and channel (uint8). A message goes on with the
 * lengths of subject and reply (uint16 each) and of the headers (uint32), then these texts and the payload. All
 * integers are little-endian.
 */
const LENGTH_BYTES = 4;
const MESSAGE_HEAD_BYTES = LENGTH_BYTES + 1 + 2 + 2 + 4;
const NO_REPLY = 0xffff;
/** A NATS server takes 64 MB at most, and subjects and headers come on top. */
export const LINK_MESSAGE_BYTES_MAX = 68_000_000;

const KINDS = { message: 0, other: 1 } as const;
/**
 * Channels of a link. Control messages and bulk data keep the order in which they were sent, also between each other.
 */
export const LINK_CHANNELS = ["control", "bulk"] as const;
export type LinkChannel = (typeof LINK_CHANNELS)[number];

const kindByte = (kind: keyof typeof KINDS, channel: LinkChannel): number => KINDS[kind] + (channel === "bulk" ? 2 : 0);
export const channelOf = (body: Uint8Array): LinkChannel => (((body[0] ?? 0) & 2) === 0 ? "control" : "bulk");

/** @param more - what follows the payload, as a part of it */
export function encodeLinkMessage(
  message: LinkMessage,
  channel: LinkChannel = "control",
  more: readonly Uint8Array[] = [],
): DataFrame {
  if (message.kind !== "message") return encodeText(JSON.stringify(message), channel);
  const { subject, reply, headers, payload } = message;
  const headerText = headers === undefined ? "" : JSON.stringify(headers);
  const headerBytes = headers === undefined ? 0 : Buffer.byteLength(headerText);
  const replyBytes = reply === undefined ? 0 : reply.length;
  const head = Buffer.allocUnsafe(MESSAGE_HEAD_BYTES + subject.length + replyBytes + headerBytes);
  let byteLength = head.byteLength + payload.byteLength;
  for (const segment of more) byteLength += segment.byteLength;
  head.writeUInt32LE(byteLength - LENGTH_BYTES, 0);
  head[4] = kindByte("message", channel);
  head.writeUInt16LE(subject.length, 5);
  head.writeUInt16LE(reply === undefined ? NO_REPLY : replyBytes, 7);
  head.writeUInt32LE(headerBytes, 9);
  let at = MESSAGE_HEAD_BYTES + head.write(subject, MESSAGE_HEAD_BYTES, "latin1");
  if (reply !== undefined) at += head.write(reply, at, "latin1");
  if (headers !== undefined) head.write(headerText, at);
  return { head, body: payload.byteLength === 0 ? more : [payload, ...more], byteLength };
}

/** Encodes a text that both ends understand: handshakes, and other things than messages. */
export function encodeText(text: string, channel: LinkChannel = "control"): DataFrame {
  const length = Buffer.byteLength(text);
  const head = Buffer.allocUnsafe(LENGTH_BYTES + 1 + length);
  head.writeUInt32LE(1 + length, 0);
  head[4] = kindByte("other", channel);
  head.write(text, 5);
  return { head, body: [], byteLength: head.byteLength };
}

const kindOf = (body: Uint8Array): number | undefined => ((body[0] ?? 4) < 4 ? body[0]! & 1 : undefined);

/** @returns undefined for a malformed body; the payload is a view of `body` */
export function decodeLinkMessage(body: Buffer): LinkMessage | undefined {
  if (kindOf(body) === KINDS.other) return asLinkMessage(parseText(body));
  if (kindOf(body) !== KINDS.message || body.byteLength < MESSAGE_HEAD_BYTES - LENGTH_BYTES) return undefined;
  const subjectBytes = body.readUInt16LE(1);
  const replyBytes = body.readUInt16LE(3);
  const headerBytes = body.readUInt32LE(5);
  const subjectAt = 9;
  const replyAt = subjectAt + subjectBytes;
  const headersAt = replyAt + (replyBytes === NO_REPLY ? 0 : replyBytes);
  const payloadAt = headersAt + headerBytes;
  if (payloadAt > body.byteLength) return undefined;
  const headers = headerBytes === 0 ? undefined : parseHeaders(body.toString("utf8", headersAt, payloadAt));
  if (headerBytes > 0 && headers === undefined) return undefined;
  return {
    kind: "message",
    subject: body.toString("latin1", subjectAt, replyAt),
    reply: replyBytes === NO_REPLY ? undefined : body.toString("latin1", replyAt, headersAt),
    headers,
    payload: new Uint8Array(body.buffer, body.byteOffset + payloadAt, body.byteLength - payloadAt),
  };
}

/** @returns undefined where it is no text, or no JSON */
export function parseText(body: Buffer): unknown {
  if (kindOf(body) !== KINDS.other) return undefined;
  try {
    return JSON.parse(body.toString("utf8", 1)) as unknown;
  } catch {
    return undefined;
  }
}

function parseHeaders(text: string): Record<string, string> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    const entries = Object.entries(value);
    if (!entries.every(([, one]) => typeof one === "string")) return undefined;
    // Without a prototype: the other end chooses the names.
    return Object.assign(Object.create(null) as Record<string, string>, value as Record<string, string>);
  } catch {
    return undefined;
  }
}

function asLinkMessage(value: unknown): LinkMessage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { kind, pattern, exclusive, inbox } = value as Record<string, unknown>;
  if (kind === "go") return { kind };
  if (kind === "ready") return typeof inbox === "string" ? { kind, inbox } : undefined;
  if ((kind !== "interest" && kind !== "no-interest") || typeof pattern !== "string") return undefined;
  return typeof exclusive === "boolean" ? { kind, pattern, exclusive } : undefined;
}

/** Cuts a stream of bytes into the messages in it. */
export class LinkAssembler {
  /** A longer message than this is none. */
  bytesMax = LINK_MESSAGE_BYTES_MAX;
  readonly #onBody: (body: Buffer) => void;
  /** Bytes that wait for the rest of their message. */
  #rest: Buffer = NOTHING;
  /** A message longer than a read, while it is filled. */
  #large: Buffer | undefined;
  #filled = 0;

  /** @param onBody - called with a message without its length; its bytes may be kept */
  constructor(onBody: (body: Buffer) => void) {
    this.#onBody = onBody;
  }

  /** @returns false if the bytes are no message of a link */
  take(chunk: Buffer): boolean {
    let at = 0;
    if (this.#large !== undefined) {
      at = Math.min(chunk.byteLength, this.#large.byteLength - this.#filled);
      this.#filled += chunk.copy(this.#large, this.#filled, 0, at);
      if (this.#filled < this.#large.byteLength) return true;
      const body = this.#large;
      this.#large = undefined;
      this.#onBody(body);
    }
    const bytes = this.#rest.byteLength === 0 ? chunk : Buffer.concat([this.#rest, chunk.subarray(at)]);
    if (this.#rest.byteLength > 0) at = 0;
    this.#rest = NOTHING;
    while (bytes.byteLength - at >= LENGTH_BYTES) {
      const length = bytes.readUInt32LE(at);
      if (length === 0 || length > this.bytesMax) return false;
      const start = at + LENGTH_BYTES;
      if (bytes.byteLength - start < length) {
        this.#large = Buffer.allocUnsafeSlow(length);
        this.#filled = bytes.copy(this.#large, 0, start);
        return true;
      }
      at = start + length;
      this.#onBody(bytes.subarray(start, at));
    }
    if (at < bytes.byteLength) this.#rest = bytes.subarray(at);
    return true;
  }
}

const NOTHING = Buffer.alloc(0);
