/** Reads requests' bodies into memory, and never more than may be there: of one, and of all together. */
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip, inflate } from "node:zlib";
import { TuttiError } from "@tutti/protocol";

/** A body as JSON is several times as large as its tensors (REQUEST_BYTES_MAX), and may hold several rows. */
export const BODY_BYTES_MAX = 33_554_432;
/** Bodies that are being read or answered, together. */
export const BODIES_BYTES_MAX = 536_870_912;

export class BodyReader {
  readonly #bodyMax: number;
  readonly #bodiesMax: number;
  #bytes = 0;

  constructor(bodyMax: number = BODY_BYTES_MAX, bodiesMax: number = BODIES_BYTES_MAX) {
    this.#bodyMax = bodyMax;
    this.#bodiesMax = bodiesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * @param use - what is done with the body; its bytes count until that settles
   * @throws {TuttiError} TOO_LARGE, OVERLOADED, CANCELLED when the client goes away meanwhile, INVALID_INPUT for an encoding that is not served
   */
  async withBody<Result>(request: IncomingMessage, use: (body: Uint8Array) => Promise<Result>): Promise<Result> {
    const counted = { bytes: 0 };
    const count = (bytes: number): void => {
      counted.bytes += bytes;
      this.#bytes += bytes;
    };
    try {
      const told = Number(request.headers["content-length"]);
      if (told > this.#bodyMax) throw this.#tooLarge();
      const body = await this.#read(request, count);
      const encoding = request.headers["content-encoding"];
      return await use(encoding === undefined ? body : await this.#decoded(body, encoding, count));
    } finally {
      this.#bytes -= counted.bytes;
    }
  }

  /** The same for what is in memory already. @throws {TuttiError} OVERLOADED */
  async withBytes<Result>(bytes: number, use: () => Promise<Result>): Promise<Result> {
    if (this.#bytes + bytes > this.#bodiesMax) throw this.#full();
    this.#bytes += bytes;
    try {
      return await use();
    } finally {
      this.#bytes -= bytes;
    }
  }

  #read(request: IncomingMessage, count: (bytes: number) => void): Promise<Uint8Array> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    return new Promise((resolve, reject) => {
      let isOver = false;
      const fail = (error: TuttiError): void => {
        isOver = true;
        chunks.length = 0;
        request.off("data", onData);
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        bytes += chunk.byteLength;
        if (bytes > this.#bodyMax) return fail(this.#tooLarge());
        if (this.#bytes + chunk.byteLength > this.#bodiesMax) return fail(this.#full());
        count(chunk.byteLength);
        chunks.push(chunk);
      };
      request.on("data", onData);
      request.once("end", () => {
        isOver = true;
        resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
      });
      // It is closed after its end, too; an error with a stack that nobody reads would cost as much as the body.
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
    // As much as it may become counts before it is known how much it is.
    if (this.#bytes + this.#bodyMax > this.#bodiesMax) throw this.#full();
    count(this.#bodyMax);
    try {
      return await (decode as (data: Uint8Array, options: object) => Promise<Buffer>)(body, {
        maxOutputLength: this.#bodyMax,
      });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw this.#tooLarge();
      throw new TuttiError("TUTTI_INVALID_INPUT", `the body is no ${encoding}`, { cause });
    }
  }

  #tooLarge(): TuttiError {
    return new TuttiError("TUTTI_TOO_LARGE", `a body has at most ${this.#bodyMax} bytes (BODY_BYTES_MAX)`);
  }

  #full(): TuttiError {
    return new TuttiError("TUTTI_OVERLOADED", "this gateway holds as many bodies as it may (BODIES_BYTES_MAX)", {
      retryAfterMs: 50,
    });
  }
}

const gone = (): TuttiError => new TuttiError("TUTTI_CANCELLED", "the client went away");
