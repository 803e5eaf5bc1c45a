/**
 * Writes a recording as it happens.
 *
 *   TW1. Memory is bounded: requests that the file can't take in time are counted and recorded as a gap. The recorder
 *        must not wait instead: a NATS server slows down the publishers of a slow subscriber, so waiting would disturb
 *        the recorded traffic.
 */
import { type WriteStream, createWriteStream } from "node:fs";
import { once } from "node:events";
import { CommandError } from "@tutti/admin";
import type { GapLine, TraceHeader, TraceLine } from "../scenarios/trace-file.ts";

/** Size of the chunks in which lines are handed to the file. */
const CHUNK_CHARS = 65_536;
/** Maximum size of the text that waits for the file. */
export const WAITING_BYTES_MAX = 67_108_864;

export class TraceWriter {
  readonly #path: string;
  readonly #stream: WriteStream;
  readonly #waitingMax: number;
  #pending = "";
  #unwritten = 0;
  #error: NodeJS.ErrnoException | undefined;
  #onFailure: (error: CommandError) => void = () => undefined;
  /** Requests written, the size of all lines, and requests that the file could not take. */
  count = 0;
  bytes = 0;
  missed = 0;

  private constructor(path: string, stream: WriteStream, waitingMax: number) {
    this.#path = path;
    this.#stream = stream;
    this.#waitingMax = waitingMax;
    stream.on("error", (error: NodeJS.ErrnoException) => {
      this.#error ??= error;
      this.#onFailure(this.#failure());
    });
  }

  /** @throws {CommandError} the file exists already, or can't be created */
  static async create(
    path: string,
    header: TraceHeader,
    { waitingBytesMax = WAITING_BYTES_MAX } = {},
  ): Promise<TraceWriter> {
    // Only the owner may read who asked for what and when.
    const stream = createWriteStream(path, { flags: "wx", mode: 0o600 });
    const writer = new TraceWriter(path, stream, waitingBytesMax);
    try {
      await once(stream, "open");
    } catch {
      throw writer.#failure();
    }
    writer.#add(header);
    return writer;
  }

  /** Sets a listener, called once when the file can't be written any more. */
  onFailure(listener: (error: CommandError) => void): void {
    this.#onFailure = listener;
  }

  request(line: TraceLine): void {
    if (this.#stream.writableLength + this.#pending.length >= this.#waitingMax) {
      this.missed++;
      this.#unwritten++;
      return;
    }
    this.#writeGap(line.t);
    this.#add(line);
    this.count++;
  }

  /** Records a time without a connection. */
  away(t: number, awayUs: number): void {
    this.#add({ t, awayUs } satisfies GapLine);
  }

  flush(): void {
    if (this.#pending === "" || this.#error !== undefined) return;
    this.#stream.write(this.#pending);
    this.#pending = "";
  }

  /** Writes the pending lines. @throws {CommandError} the file could not take all of them */
  async close(t: number): Promise<void> {
    this.#writeGap(t);
    this.flush();
    await new Promise<void>((resolve) => {
      this.#stream.once("close", resolve);
      if (this.#stream.closed) resolve();
      else this.#stream.end();
    });
    if (this.#error !== undefined) throw this.#failure();
  }

  #writeGap(t: number): void {
    if (this.#unwritten === 0) return;
    this.#add({ t, missed: this.#unwritten } satisfies GapLine);
    this.#unwritten = 0;
  }

  #add(line: TraceHeader | TraceLine | GapLine): void {
    const text = `${JSON.stringify(line)}\n`;
    this.bytes += text.length;
    this.#pending += text;
    if (this.#pending.length >= CHUNK_CHARS) this.flush();
  }

  #failure(): CommandError {
    const code = this.#error?.code;
    if (code === "EEXIST")
      return new CommandError(`${this.#path} is there already: name another file, or remove it first`);
    if (code === "ENOENT") return new CommandError(`${this.#path} can't be made: there is no such folder`);
    return new CommandError(`${this.#path} can't be written: ${this.#error?.message ?? "it was closed"}`);
  }
}
