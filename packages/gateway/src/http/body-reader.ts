/** Reads requests' bodies into memory, with bounds on one body and on all together. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import { gunzip, inflate } from "node:zlib";
import { TuttiError } from "@tutti/protocol";
import { ClientAccounts, type ClientBytes } from "../client-bytes.ts";

/** Largest body: as JSON it is several times as large as its tensors (REQUEST_BYTES_MAX), and may hold several rows. */
export const BODY_BYTES_MAX = 33_554_432;
/** Bodies that are being read or answered, together. */
export const BODIES_BYTES_MAX = 536_870_912;
/** The part of these bytes that one address may hold: no client takes them all. */
export const ADDRESS_BODIES_BYTES_MAX = 268_435_456;

/** Largest number of pieces of one body: at 512 bytes on average they make the largest body. */
export const BODY_PIECES_MAX = 65_536;
/** Largest expansion of a byte by deflate. */
export const INFLATION = 1_032;
/** Least buffer of a body that grows: without and with a Content-Length. */
const ROOM_LEAST = 4_096;
const TOLD_ROOM_LEAST = 262_144;

export class BodyReader {
  readonly #bodyMax: number;
  readonly #bodiesMax: number;
  readonly #addressMax: number;
  readonly #clients = new ClientAccounts();
  #bytes = 0;

  constructor(
    bodyMax: number = BODY_BYTES_MAX,
    bodiesMax: number = BODIES_BYTES_MAX,
    addressMax: number = ADDRESS_BODIES_BYTES_MAX,
  ) {
    this.#bodyMax = bodyMax;
    this.#bodiesMax = bodiesMax;
    this.#addressMax = addressMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reads the body and runs `use` with it.
   *
   * @param use - handles the body; its bytes count until that settles
   * @throws {TuttiError} TOO_LARGE, OVERLOADED, CANCELLED when the client disconnects meanwhile, INVALID_INPUT for an
   *   unknown encoding
   */
  async withBody<Result>(request: IncomingMessage, use: (body: Uint8Array) => Promise<Result>): Promise<Result> {
    const client = this.clientOf(request.socket);
    let counted = 0;
    const count = (bytes: number): void => {
      if (bytes > 0 && !this.hold(bytes, client)) throw this.full();
      if (bytes < 0) this.release(-bytes, client);
      counted += bytes;
    };
    try {
      const told = Number(request.headers["content-length"]);
      if (told > this.#bodyMax) throw this.#tooLarge();
      const body = await this.#read(request, count);
      const encoding = request.headers["content-encoding"];
      return await use(encoding === undefined ? body : await this.#decoded(body, encoding, count));
    } finally {
      this.release(counted, client);
    }
  }

  /** The account whose bytes include those of this socket. */
  clientOf(socket: Socket): ClientBytes {
    return this.#clients.of(socket);
  }

  /** Counts bytes held for a client. @returns whether there is room; only then are they counted, until `release` */
  hold(bytes: number, client: ClientBytes): boolean {
    if (this.#bytes + bytes > this.#bodiesMax || client.bytes + bytes > this.#addressMax) return false;
    this.#bytes += bytes;
    client.bytes += bytes;
    return true;
  }
  release(bytes: number, client: ClientBytes): void {
    this.#bytes -= bytes;
    client.bytes -= bytes;
    this.#clients.settle(client);
  }

  /**
   * Reads a body into one buffer. As a piece of its own each chunk would take 250 bytes beside its content, which may
   * be one.
   */
  #read(request: IncomingMessage, count: (bytes: number) => void): Promise<Uint8Array> {
    const told = request.headers["content-length"];
    const most = Math.min(this.#bodyMax, Number(told ?? this.#bodyMax));
    const least = told === undefined ? ROOM_LEAST : TOLD_ROOM_LEAST;
    let body: Uint8Array = NOTHING;
    let bytes = 0;
    let pieces = 0;
    return new Promise((resolve, reject) => {
      let isOver = false;
      const fail = (error: TuttiError): void => {
        isOver = true;
        body = NOTHING;
        request.off("data", onData);
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        const end = bytes + chunk.byteLength;
        if (end > this.#bodyMax) return fail(this.#tooLarge());
        if (++pieces > BODY_PIECES_MAX) return fail(inTooManyPieces());
        if (end > body.byteLength) {
          const room = pieces === 1 ? end : Math.max(end, Math.min(most, Math.max(2 * body.byteLength, least)));
          const more = room - body.byteLength;
          try {
            count(more);
          } catch (error) {
            return fail(error as TuttiError);
          }
          body = pieces === 1 ? chunk : grown(body, room);
        }
        if (pieces > 1) body.set(chunk, bytes);
        bytes = end;
      };
      request.on("data", onData);
      request.once("end", () => {
        isOver = true;
        resolve(body.byteLength === bytes ? body : body.subarray(0, bytes));
      });
      // "close" follows "end" too; an error with a stack that nobody reads would cost as much as the body.
      request.once("close", () => {
        if (!isOver) fail(gone());
      });
    });
  }

  async #decoded(body: Uint8Array, encoding: string | undefined, count: (bytes: number) => void): Promise<Uint8Array> {
    if (encoding === undefined || encoding === "identity") return body;
    const decode = encoding === "gzip" ? promisify(gunzip) : encoding === "deflate" ? promisify(inflate) : undefined;
    if (decode === undefined)
      throw new TuttiError(
        "TUTTI_INVALID_INPUT",
        `Content-Encoding "${encoding.slice(0, 40)}": send gzip, deflate or none`,
      );
    // The largest possible size counts until the real one is known.
    const most = Math.min(this.#bodyMax, INFLATION * body.byteLength);
    count(most);
    try {
      const decoded = await (decode as (data: Uint8Array, options: object) => Promise<Buffer>)(body, {
        maxOutputLength: this.#bodyMax,
      });
      count(decoded.byteLength - most);
      return decoded;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw this.#tooLarge();
      throw new TuttiError("TUTTI_INVALID_INPUT", `the body is no ${encoding}`, { cause });
    }
  }

  #tooLarge(): TuttiError {
    return new TuttiError("TUTTI_TOO_LARGE", `a body has at most ${this.#bodyMax} bytes (BODY_BYTES_MAX)`);
  }

  /** The refusal where there is no room. */
  full(): TuttiError {
    const text =
      "this gateway holds as many bodies as it may, in all or of one address (BODIES_BYTES_MAX, ADDRESS_BODIES_BYTES_MAX)";
    return new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 50 });
  }
}

const NOTHING = new Uint8Array(0);

function grown(body: Uint8Array, room: number): Uint8Array {
  const larger = Buffer.allocUnsafeSlow(room);
  larger.set(body);
  return larger;
}

const inTooManyPieces = (): TuttiError =>
  new TuttiError("TUTTI_INVALID_INPUT", `a body comes in at most ${BODY_PIECES_MAX} pieces (BODY_PIECES_MAX)`);
const gone = (): TuttiError => new TuttiError("TUTTI_CANCELLED", "the client went away");
