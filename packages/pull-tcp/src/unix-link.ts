/**
 * Links over Unix sockets, through which the processes of one host talk without a server between them (HostBus in
 * @tutti/bus).
 *
 *   UNIX-1. Each end proves that it is the process whose heartbeat named its public key: it signs a challenge that the
 *           other end has drawn at random.
 *   UNIX-2. The folder of the sockets belongs to their user alone.
 *   UNIX-3. At most `pendingBytesMax` wait for an end that does not read; beyond, the link ends, and messages go by the
 *           server again.
 */
import { type KeyObject, createPublicKey, randomBytes, sign, verify } from "node:crypto";
import { type Server, type Socket, connect, createServer } from "node:net";
import type { LinkEnd, LinkHandlers, LinkMessage } from "@tutti/ports/bus";
import { FrameSocket } from "./frame-socket.ts";
import {
  LINK_CHANNELS,
  LINK_MESSAGE_BYTES_MAX,
  LinkAssembler,
  type LinkChannel,
  channelOf,
  decodeLinkMessage,
  encodeLinkMessage,
  encodeText,
  parseText,
} from "./link-codec.ts";

const PENDING_BYTES_MAX = 134_217_728;
const HANDSHAKE_MS = 2_000;
/** Longest text of a handshake: until both ends are authenticated, no longer message is received. */
const HANDSHAKE_BYTES_MAX = 4_096;
const CONNECTIONS_MAX = 1_024;

/** Both channels of a connection: they open and close together. */
export type LinkEnds = Readonly<Record<LinkChannel, LinkEnd>>;

export interface LinkIdentity {
  readonly id: string;
  readonly privateKey: KeyObject;
}

/** Called with an established link. */
export type OnLink = (peer: string, ends: LinkEnds) => void;
/** The public key (base64 of its DER form) that a process' heartbeat has named; undefined without a heartbeat. */
export type PublicKeyOf = (process: string) => string | undefined;

export interface LinkListenerOptions {
  readonly path: string;
  readonly identity: LinkIdentity;
  readonly publicKeyOf: PublicKeyOf;
  /** Whether a link with that process is wanted: not where one exists. */
  readonly wants: (peer: string) => boolean;
  readonly onLink: OnLink;
}

interface Hello {
  readonly id: string;
  readonly nonce: string;
}

/** Accepts links of other processes. */
export class LinkListener {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(options: LinkListenerOptions) {
    this.#server = createServer((socket) => {
      if (this.#sockets.size >= CONNECTIONS_MAX) return void socket.destroy();
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
      accept(socket, options);
    });
    this.#server.listen(options.path);
  }

  /** Resolves when it listens. @throws {Error} it can't listen */
  ready(): Promise<void> {
    if (this.#server.listening) return Promise.resolve();
    return new Promise((resolve, reject) => this.#server.once("listening", resolve).once("error", reject));
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function accept(socket: Socket, { identity, publicKeyOf, wants, onLink }: LinkListenerOptions): void {
  const challenge = randomBytes(24).toString("base64url");
  let hello: Hello | undefined;
  const talk = new Handshake(socket, (said) => {
    if (hello === undefined) {
      hello = asHello(said);
      if (hello === undefined || !wants(hello.id)) return talk.fail();
      return talk.say({ id: identity.id, nonce: challenge, signature: signed(identity, hello, "accepts") });
    }
    const { signature } = said as { readonly signature?: unknown };
    const given = { id: identity.id, nonce: challenge };
    if (!isSigned(publicKeyOf(hello.id), hello.id, given, "connects", signature)) return talk.fail();
    if (!wants(hello.id)) return talk.fail(); // another link exists by now
    talk.say({ stands: true });
    onLink(hello.id, talk.finish(`${hello.nonce}${challenge}`));
  });
}

export interface LinkConnectOptions {
  readonly path: string;
  readonly identity: LinkIdentity;
  /** Id of the process that should listen there. */
  readonly peer: string;
  readonly publicKeyOf: PublicKeyOf;
  readonly onLink: OnLink;
  /** Called when the link could not be made, or the other end did not want it. */
  readonly onFailed: () => void;
}

/** Offers a link to the process that listens at `path`. */
export function connectLink(options: LinkConnectOptions): void {
  const { path, identity, peer, publicKeyOf, onLink, onFailed } = options;
  const nonce = randomBytes(24).toString("base64url");
  const hello: Hello = { id: identity.id, nonce };
  const socket = connect(path);
  let id: string | undefined;
  const talk = new Handshake(
    socket,
    (said) => {
      if (id !== undefined) return "stands" in said ? onLink(peer, talk.finish(id)) : talk.fail();
      const { id: sender, nonce: challenge, signature } = said as Record<string, unknown>;
      if (sender !== peer || typeof challenge !== "string") return talk.fail();
      if (!isSigned(publicKeyOf(peer), peer, hello, "accepts", signature)) return talk.fail();
      const given: Hello = { id: peer, nonce: challenge };
      talk.say({ signature: signed(identity, given, "connects") });
      id = `${nonce}${challenge}`;
    },
    onFailed,
  );
  talk.say(hello);
}

/** @param hello - the other end's hello, whose nonce makes the signature fresh */
const signedText = (signer: string, { id, nonce }: Hello, act: string): Buffer =>
  Buffer.from(`tutti-link ${act} ${signer} ${id} ${nonce}`);

const signed = ({ id, privateKey }: LinkIdentity, hello: Hello, act: "accepts" | "connects"): string =>
  sign(null, signedText(id, hello, act), privateKey).toString("base64");

function isSigned(
  publicKey: string | undefined,
  signer: string,
  hello: Hello,
  act: "accepts" | "connects",
  signature: unknown,
): boolean {
  if (publicKey === undefined || typeof signature !== "string") return false;
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, "base64"), format: "der", type: "spki" });
    return verify(null, signedText(signer, hello, act), key, Buffer.from(signature, "base64"));
  } catch {
    return false;
  }
}

function asHello(value: unknown): Hello | undefined {
  const { id, nonce } = value as Record<string, unknown>;
  return typeof id === "string" && typeof nonce === "string" ? { id, nonce } : undefined;
}

/** The handshake of a connection: JSON texts, until both ends are authenticated. */
class Handshake {
  readonly #socket: Socket;
  readonly #frames: FrameSocket;
  readonly #assembler: LinkAssembler;
  readonly #timer: NodeJS.Timeout;
  #onBody: (body: Buffer) => void;
  #isOver = false;

  constructor(socket: Socket, onSaid: (said: object) => void, onFailed: () => void = () => undefined) {
    this.#socket = socket;
    this.#frames = new FrameSocket(socket, PENDING_BYTES_MAX);
    this.#timer = setTimeout(() => socket.destroy(), HANDSHAKE_MS);
    this.#onBody = (body) => {
      const said = parseText(body);
      if (typeof said === "object" && said !== null) onSaid(said);
      else this.fail();
    };
    this.#assembler = new LinkAssembler((body) => this.#onBody(body));
    this.#assembler.bytesMax = HANDSHAKE_BYTES_MAX;
    socket.on("data", (chunk: Buffer) => {
      if (!this.#assembler.take(chunk)) socket.destroy();
    });
    socket.on("error", () => undefined); // "close" follows
    socket.once("close", () => {
      clearTimeout(this.#timer);
      if (!this.#isOver) onFailed();
    });
  }

  say(what: object): void {
    this.#frames.send(encodeText(JSON.stringify(what)), "kept");
  }

  fail(): void {
    this.#socket.destroy();
  }

  /** Ends the handshake and turns the connection into a link. */
  finish(id: string): LinkEnds {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#assembler.bytesMax = LINK_MESSAGE_BYTES_MAX;
    const channels = { control: new Channel(), bulk: new Channel() };
    const socket = this.#socket;
    this.#onBody = (body) => {
      const message = decodeLinkMessage(body);
      if (message === undefined) socket.destroy();
      else channels[channelOf(body)].take(message);
    };
    socket.once("close", () => {
      for (const channel of LINK_CHANNELS) channels[channel].end();
    });
    const frames = this.#frames;
    const endOf = (channel: LinkChannel): LinkEnd => ({
      id,
      send: (message, isOwned = false) =>
        frames.send(encodeLinkMessage(message, channel), isOwned ? "kept" : "borrowed"),
      sendSegments: (subject, segments) =>
        frames.send(encodeLinkMessage(messageTo(subject), channel, segments), "kept"),
      open: (handlers) => channels[channel].open(handlers),
      close: () => {
        frames.flush();
        socket.destroySoon();
      },
    });
    return { control: endOf("control"), bulk: endOf("bulk") };
  }
}

const messageTo = (subject: string): LinkMessage => ({
  ...{ kind: "message", subject, reply: undefined, headers: undefined, payload: NOTHING },
});
const NOTHING = new Uint8Array(0);

/** The receiving side of one channel: messages that come before it is opened wait. */
class Channel {
  #handlers: LinkHandlers | undefined;
  #early: LinkMessage[] = [];
  #hasEnded = false;

  open(handlers: LinkHandlers): void {
    this.#handlers = handlers;
    for (const message of this.#early.splice(0)) handlers.onMessage(message);
    if (this.#hasEnded) handlers.onClosed();
  }
  take(message: LinkMessage): void {
    if (this.#handlers === undefined) this.#early.push(message);
    else this.#handlers.onMessage(message);
  }
  end(): void {
    this.#hasEnded = true;
    this.#handlers?.onClosed();
  }
}
