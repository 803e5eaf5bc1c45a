/**
 * Decodes pictures in a process of its own, which can be ended at any moment, and whose memory ends with it.
 *
 *   PROCESS-1. It is ended and started anew when a picture takes DECODE_MS_MAX, when nobody waits for one that has
 *              taken SPARED_MS, and after a picture that leaves it with more than RESIDENT_BYTES_MAX.
 *   PROCESS-2. A process that dies fails only the picture that it was decoding.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { TuttiError } from "@tutti/protocol";
import type { DecodedPicture, PictureTarget } from "./picture-file.ts";
import { type FromDecoder, LENGTHS_BYTES, headOf, lengthsOf } from "./picture-messages.ts";

/** Longest time for one picture: the most expensive that is taken needs a tenth on an idle core. */
export const DECODE_MS_MAX = 2_000;
/** Time that a picture has though nobody waits for it: a new process costs as much. */
const SPARED_MS = 200;
/** Memory of a process that is kept: it has 80 MB before the first picture. */
export const RESIDENT_BYTES_MAX = 268_435_456;

export interface PictureProcessOptions {
  readonly script?: URL;
  readonly decodeMsMax?: number;
  readonly residentMax?: number;
}

interface Job {
  readonly target: PictureTarget;
  readonly bytes: Uint8Array;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decoded: DecodedPicture) => void;
  readonly reject: (error: TuttiError) => void;
}
type Child = ChildProcessByStdio<Socket, Socket, null>;

/** One process; pictures wait for each other. */
export class PictureProcess {
  readonly #script: URL;
  readonly #decodeMsMax: number;
  readonly #residentMax: number;
  readonly #waiting: Job[] = [];
  #child: Child | undefined;
  #job: Job | undefined;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  #timers: NodeJS.Timeout[] = [];
  #onAbort: () => void = () => undefined;

  constructor(options: PictureProcessOptions = {}) {
    this.#script = options.script ?? new URL("./picture-decoder.ts", import.meta.url);
    this.#decodeMsMax = options.decodeMsMax ?? DECODE_MS_MAX;
    this.#residentMax = options.residentMax ?? RESIDENT_BYTES_MAX;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts the process ahead, so that the first picture doesn't wait for it. */
  start(): void {
    this.#child ??= this.#spawn();
  }

  /**
   * @param bytes - borrowed until the promise settles
   * @throws {TuttiError} as PictureDecoder; TOO_LARGE where it takes too long, CANCELLED, or INTERNAL where its process
   *   died
   */
  decode(bytes: Uint8Array, target: PictureTarget, signal?: AbortSignal): Promise<DecodedPicture> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ bytes, target, signal, resolve, reject });
      this.#next();
    });
  }

  close(): void {
    const error = new TuttiError("TUTTI_UNAVAILABLE", "the picture was not decoded: its process is stopping");
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    this.#end(error);
  }

  #next(): void {
    if (this.#job !== undefined) return;
    const job = this.#waiting.shift();
    if (job === undefined) return;
    if (job.signal?.aborted === true) {
      job.reject(unwanted());
      return this.#next();
    }
    this.start();
    this.#job = job;
    const child = this.#child!;
    child.ref();
    child.stdout.ref();
    const startedAt = performance.now();
    this.#timers = [setTimeout(() => this.#restart(tooSlow(this.#decodeMsMax)), this.#decodeMsMax)];
    this.#onAbort = () => {
      const spared = Math.max(0, SPARED_MS - (performance.now() - startedAt));
      this.#timers.push(setTimeout(() => this.#restart(unwanted()), spared));
    };
    job.signal?.addEventListener("abort", this.#onAbort, { once: true });
    child.stdin.cork();
    child.stdin.write(headOf(job.target, job.bytes));
    child.stdin.write(job.bytes);
    child.stdin.uncork();
  }

  #spawn(): Child {
    // Hostile bytes are read there: it gets no credentials from the environment.
    const { LD_LIBRARY_PATH: libraries } = process.env;
    const env = { MALLOC_ARENA_MAX: "1", UV_THREADPOOL_SIZE: "1", ...(libraries && { LD_LIBRARY_PATH: libraries }) };
    const script = fileURLToPath(this.#script);
    const child = spawn(process.execPath, [script], { env, stdio: ["pipe", "pipe", "ignore"] }) as unknown as Child;
    const lost = (): void => {
      if (this.#child === child) this.#end(died());
    };
    child.on("exit", lost).on("error", lost);
    // Writing to a process that has just died: its end is reported by itself.
    child.stdin.on("error", () => undefined);
    child.stdout.on("data", (chunk: Buffer) => {
      if (this.#child === child) this.#receive(chunk);
    });
    for (const one of [child, child.stdin, child.stdout]) one.unref();
    return child;
  }

  #receive(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#receivedBytes += chunk.byteLength;
    if (this.#receivedBytes < LENGTHS_BYTES) return;
    if (this.#received[0]!.byteLength < LENGTHS_BYTES) this.#received = [Buffer.concat(this.#received)];
    const [jsonBytes, pixelBytes] = lengthsOf(this.#received[0]!);
    if (this.#receivedBytes < LENGTHS_BYTES + jsonBytes + pixelBytes) return;
    const whole = Buffer.concat(this.#received);
    const pixelsAt = LENGTHS_BYTES + jsonBytes;
    const answer = JSON.parse(whole.toString("utf8", LENGTHS_BYTES, pixelsAt)) as FromDecoder;
    this.#answered(answer, new Uint8Array(whole.buffer, whole.byteOffset + pixelsAt, pixelBytes));
  }

  #answered(answer: FromDecoder, rgb: Uint8Array): void {
    const job = this.#settled();
    // Its memory is given back before the next picture.
    if (answer.resident > this.#residentMax) this.#restart(died());
    if ("code" in answer) job?.reject(new TuttiError(answer.code, answer.text, { retryable: false }));
    else job?.resolve({ image: { rgb, ...answer.image }, width: answer.width, height: answer.height });
    this.#next();
  }

  /** Ends the process, fails its picture, and starts another one for the next. */
  #restart(error: TuttiError): void {
    this.#end(error);
    this.start();
    this.#next();
  }

  #end(error: TuttiError): void {
    const child = this.#child;
    this.#child = undefined;
    child?.kill("SIGKILL");
    const job = this.#settled();
    job?.reject(error);
    if (job !== undefined) this.#next();
  }

  #settled(): Job | undefined {
    const job = this.#job;
    this.#job = undefined;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#received = [];
    this.#receivedBytes = 0;
    job?.signal?.removeEventListener("abort", this.#onAbort);
    this.#child?.unref();
    this.#child?.stdout.unref();
    return job;
  }
}

const unwanted = (): TuttiError => new TuttiError("TUTTI_CANCELLED", "nobody waits for the picture any more");
const died = (): TuttiError =>
  new TuttiError("TUTTI_INTERNAL", "the process that decodes pictures ended: run `tutti doctor`");
const tooSlow = (ms: number): TuttiError => {
  const text = `the picture takes longer than ${ms / 1_000} s to decode: send a smaller one, or a baseline JPEG`;
  return new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
};
