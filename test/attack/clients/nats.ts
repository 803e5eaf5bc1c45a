/** The NATS protocol by hand over a plain socket: it sends what a library would refuse to send. */
import { createPrivateKey, createPublicKey, randomBytes, sign } from "node:crypto";
import type { Socket } from "node:net";
import { dial } from "./http.ts";

export interface NatsMessage {
  readonly subject: string;
  readonly headers: string;
  readonly payload: Uint8Array;
}

export interface Publication {
  readonly reply?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const END = "\r\n";

export class RawNats {
  /** Errors as the server worded them. */
  readonly errors: string[] = [];
  readonly messages: NatsMessage[] = [];
  readonly #socket: Socket;
  readonly #waiting = new Set<() => void>();
  #bytes: Buffer = Buffer.alloc(0);
  #isGreeted = false;
  #nonce = "";
  #pongs = 0;
  #lastSid = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => this.#onData(chunk));
    socket.on("close", () => this.#look());
  }

  /** @param credentials - text with the seed of an nkey. @throws {Error} the server rejects them */
  static async open(url: string, credentials?: string): Promise<RawNats> {
    const socket = await dial(url);
    if (socket === undefined) throw new Error(`${url} refuses connections`);
    const nats = new RawNats(socket);
    await nats.#until(() => nats.#nonce !== "" || nats.#isGreeted, 5_000);
    const key = credentials === undefined ? {} : proofOf(credentials, nats.#nonce);
    const options = { verbose: false, pedantic: false, lang: "raw", version: "1", protocol: 1, headers: true, ...key };
    nats.#write(`CONNECT ${JSON.stringify(options)}${END}`);
    if (await nats.flush()) return nats;
    throw new Error(nats.errors[0] ?? "the server closed the connection");
  }

  subscribe(subject: string): void {
    this.#write(`SUB ${subject} ${++this.#lastSid}${END}`);
  }

  publish(subject: string, payload: Uint8Array | string, { reply = "", headers }: Publication = {}): void {
    const body = Buffer.from(payload);
    const lines = Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}${END}`);
    const head = headers === undefined ? "" : `NATS/1.0${END}${lines.join("")}${END}`;
    const sizes = head === "" ? `${body.byteLength}` : `${head.length} ${head.length + body.byteLength}`;
    const verb = head === "" ? "PUB" : "HPUB";
    this.#socket.write(
      Buffer.concat([
        Buffer.from(`${verb} ${subject} ${reply === "" ? "" : `${reply} `}${sizes}${END}${head}`, "latin1"),
        body,
        Buffer.from(END),
      ]),
    );
  }

  /** Waits until the server has seen everything that was sent. @returns false: the connection is closed */
  async flush(): Promise<boolean> {
    const wanted = this.#pongs + 1;
    this.#write(`PING${END}`);
    await this.#until(() => this.#pongs >= wanted, 5_000);
    return this.#pongs >= wanted;
  }

  /** The first matching message, past or to come; undefined where there is none in time. */
  async next(fits: (message: NatsMessage) => boolean, withinMs: number): Promise<NatsMessage | undefined> {
    await this.#until(() => this.messages.some(fits), withinMs);
    return this.messages.find(fits);
  }

  /** Waits for so many messages. @returns whether they came in time */
  async received(count: number, withinMs: number): Promise<boolean> {
    await this.#until(() => this.messages.length >= count, withinMs);
    return this.messages.length >= count;
  }

  close(): void {
    this.#socket.destroy();
  }

  #write(text: string): void {
    if (this.#socket.writable) this.#socket.write(text);
  }

  #until(holds: () => boolean, withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve();
      };
      const look = (): void => {
        if (holds() || this.#socket.destroyed) done();
      };
      const timer = setTimeout(done, withinMs);
      this.#waiting.add(look);
      look();
    });
  }

  #look(): void {
    for (const look of [...this.#waiting]) look();
  }

  #onData(chunk: Buffer): void {
    this.#bytes = this.#bytes.byteLength === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    while (this.#readOne());
    this.#look();
  }

  /** @returns whether there was a whole line, with its payload if it has one */
  #readOne(): boolean {
    const end = this.#bytes.indexOf(END);
    if (end < 0) return false;
    const line = this.#bytes.subarray(0, end).toString("latin1");
    let next = end + END.length;
    const [verb = "", ...words] = line.split(/\s+/);
    if (verb === "MSG" || verb === "HMSG") {
      const total = Number(words.at(-1));
      if (this.#bytes.byteLength < next + total + END.length) return false;
      const headBytes = verb === "HMSG" ? Number(words.at(-2)) : 0;
      const headers = this.#bytes.subarray(next, next + headBytes).toString("latin1");
      const payload = Buffer.from(this.#bytes.subarray(next + headBytes, next + total));
      this.messages.push({ subject: words[0] ?? "", headers, payload });
      next += total + END.length;
    } else if (verb === "INFO") {
      this.#nonce = (JSON.parse(line.slice("INFO ".length)) as { readonly nonce?: string }).nonce ?? "";
      this.#isGreeted = true;
    } else if (verb === "PING") this.#write(`PONG${END}`);
    else if (verb === "PONG") this.#pongs++;
    else if (verb === "-ERR") this.errors.push(line.slice("-ERR ".length).replaceAll("'", ""));
    this.#bytes = this.#bytes.subarray(next);
    return true;
  }
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/** DER prefix that wraps a seed of Ed25519 as PKCS #8. */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
/** Prefix `U`: a user. */
const USER_PREFIX = 20 << 3;
/** Prefix `SU`: the seed of a user. */
const SEED_PREFIX = [(18 << 3) | (USER_PREFIX >> 5), (USER_PREFIX & 31) << 3];

/** Well-formed credentials that no operator has issued. */
export const madeUpCredentials = (): string => toBase32(withSum(Buffer.from([...SEED_PREFIX, ...randomBytes(32)])));

/** Proof that a server demands of an nkey: its public half, and its signature of the nonce. */
function proofOf(file: string, nonce: string): { readonly nkey: string; readonly sig: string } {
  const seed = /SU[A-Z2-7]{56}/.exec(file)?.[0];
  if (seed === undefined) throw new Error("there is no seed of a user in the credentials");
  const key = createPrivateKey({
    key: Buffer.concat([PKCS8, fromBase32(seed).subarray(2, 34)]),
    format: "der",
    type: "pkcs8",
  });
  const { x = "" } = createPublicKey(key).export({ format: "jwk" });
  const body = Buffer.concat([Buffer.from([USER_PREFIX]), Buffer.from(x, "base64url")]);
  return {
    nkey: toBase32(withSum(body)),
    sig: sign(null, Buffer.from(nonce), key).toString("base64url"),
  };
}

function fromBase32(text: string): Buffer {
  const out: number[] = [];
  let [bits, value] = [0, 0];
  for (const letter of text) {
    value = ((value << 5) | ALPHABET.indexOf(letter)) & 0xfff;
    bits += 5;
    if (bits >= 8) out.push((value >> (bits -= 8)) & 0xff);
  }
  return Buffer.from(out);
}

function toBase32(bytes: Uint8Array): string {
  let [text, bits, value] = ["", 0, 0];
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5;) text += ALPHABET[(value >> (bits -= 5)) & 31];
  }
  return bits > 0 ? text + ALPHABET[(value << (5 - bits)) & 31] : text;
}

function withSum(body: Buffer): Buffer {
  const sum = Buffer.alloc(2);
  sum.writeUInt16LE(crc16(body));
  return Buffer.concat([body, sum]);
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc;
}
