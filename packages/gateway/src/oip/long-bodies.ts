/**
 * Reads and writes JSON, long bodies on threads. A body of 4 MB takes 100 ms, in which no other request would be
 * answered and no heartbeat sent.
 */
import { FairWorkers, InlineTime, SHORT_BODY_WEIGHT } from "@tutti/node/decode";
import { TuttiError } from "@tutti/protocol";
import type { FromBodyWorker, LongHead, ToBodyWorker } from "./long-body-messages.ts";
import { type AnswerHead, writeAnswerJson } from "./infer-answer.ts";
import type { InferHead } from "./infer-head.ts";

/**
 * Shorter bodies are read on the main thread, unless their application's take too much of it: JSON costs about 20 ns a
 * byte.
 */
export const INLINE_JSON_BYTES = 65_536;
/** Largest number of elements written on the main thread, about ten bytes each. */
export const INLINE_NUMBERS = 8_192;
/** Bodies that may wait for a thread. */
export const LONG_BODIES_MAX = 64;
/** Least decoding cost of a byte, in ms. */
const BYTE_MS = 0.000_01;

/** Owner of a body, and the time until which it is worth reading. */
export interface BodyOwner {
  readonly app: string;
  /**
   * Deadline by `performance.now()`: a body that can't be read by then is refused. Infinity where no header gives an
   * SLO.
   */
  readonly until: number;
}

export class LongBodies {
  readonly #inline = new InlineTime();
  readonly #workers: FairWorkers<FromBodyWorker>;

  /** @param threads - default: that of FairWorkers */
  constructor(threads?: number) {
    this.#workers = new FairWorkers({
      ...{ script: new URL("./long-body-worker.ts", import.meta.url), name: "long bodies", jobsMax: LONG_BODIES_MAX },
      full: `${LONG_BODIES_MAX} long JSON bodies, or as much of short ones, wait already: send binary tensors (LONG_BODIES_MAX)`,
      ...(threads !== undefined && { threads }),
    });
  }

  /** Whether a body is read on a thread. @param app - whose it is */
  isLong(bytes: number, app: string): boolean {
    return bytes > INLINE_JSON_BYTES || (!this.#inline.has(app) && this.#workers.isOnline);
  }
  /** Reads a body that is not long, in the time of its application. */
  readShort<T>(app: string, read: () => T): T {
    return this.#inline.take(app, read);
  }

  /**
   * Reads the head of a long body.
   *
   * @param long - its bytes are borrowed until the promise settles
   * @throws {TuttiError} as a rejection: as readInferHead, OVERLOADED, DEADLINE_EXCEEDED
   */
  async readHead({ json, predict }: LongHead, owner: BodyOwner): Promise<InferHead> {
    const weight = json.byteLength > INLINE_JSON_BYTES ? 1 : SHORT_BODY_WEIGHT;
    const answer = await this.#ask(owner, { weight, needsMs: json.byteLength * BYTE_MS }, () => {
      const copy = new Uint8Array(json);
      return [{ json: copy, predict }, [copy.buffer]];
    });
    return "head" in answer ? answer.head : fail();
  }

  /** Whether an answer is short enough to be written on the main thread. */
  isShort(head: AnswerHead): boolean {
    let numbers = 0;
    for (const { isBinary, slice, type, dims, data } of head.outputs)
      if (!isBinary && slice === undefined) numbers += type === "BYTES" ? data.byteLength / 8 : product(dims);
    return numbers <= INLINE_NUMBERS;
  }

  /** @throws {TuttiError} OVERLOADED as a rejection */
  async writeJson(head: AnswerHead, app: string): Promise<Uint8Array> {
    if (this.isShort(head)) return writeAnswerJson(head);
    // Outputs that follow as raw bytes need not be transferred: only their length stands in the JSON.
    const answer = await this.#ask({ app, until: Infinity }, { weight: 1, needsMs: 0 }, () => [{ answer: head }, []]);
    return "written" in answer ? answer.written : fail();
  }

  close(): Promise<void> {
    return this.#workers.close("the gateway is stopping");
  }

  #ask(
    { app, until }: BodyOwner,
    { weight, needsMs }: { readonly weight: number; readonly needsMs: number },
    message: () => readonly [ToBodyWorker, readonly ArrayBuffer[]],
  ): Promise<FromBodyWorker> {
    const isTooLate = (): boolean => performance.now() + needsMs >= until;
    return new Promise((resolve, reject) => {
      this.#workers.run({ owner: app, isTooLate, message, weight }, (outcome) => {
        if (outcome instanceof TuttiError) reject(outcome);
        else resolve(outcome);
      });
    });
  }
}

const product = (dims: readonly number[]): number => dims.reduce((count, dim) => count * dim, 1);
function fail(): never {
  throw new TuttiError("TUTTI_INTERNAL", "a body was read as something else");
}
