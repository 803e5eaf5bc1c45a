import { Worker } from "node:worker_threads";
import { type DecodeJob, type Decoded, type Decoder, inlineDecoder } from "@tutti/decode";
import { TuttiError } from "@tutti/protocol";
import type { FromWorker, ToWorker } from "./messages.ts";

/** Above these a body is decoded elsewhere: JSON costs about 20 ns a byte, the other forms are little more than a copy. */
export const INLINE_JSON_BYTES_MAX = 65_536;
export const INLINE_BYTES_MAX = 1_048_576;
const WAITING_MAX = 64;

type Done = (outcome: Decoded | Error) => void;

/** Decodes long bodies on a worker thread, which is started with the first of them. */
export class WorkerDecoder implements Decoder {
  readonly #waiting = new Map<number, Done>();
  #worker: Worker | undefined;
  #lastId = 0;

  decode(job: DecodeJob, done: Done): void {
    const inlineMax = job.form === "json" ? INLINE_JSON_BYTES_MAX : INLINE_BYTES_MAX;
    if (job.payload.byteLength <= inlineMax) return inlineDecoder.decode(job, done);
    if (this.#waiting.size >= WAITING_MAX)
      return done(
        new TuttiError(
          "TUTTI_OVERLOADED",
          `${WAITING_MAX} long bodies wait to be decoded already: send binary tensors`,
          { retryAfterMs: 50 },
        ),
      );
    const id = ++this.#lastId;
    this.#waiting.set(id, done);
    // The payload is borrowed, so it is copied; the copy is then handed over without another.
    const payload = new Uint8Array(job.payload);
    this.#running().postMessage({ id, job: { ...job, payload } } satisfies ToWorker, [payload.buffer]);
  }

  close(): Promise<unknown> {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#failAll("the ingress is stopping");
    return worker === undefined ? Promise.resolve() : worker.terminate();
  }

  #running(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const worker = new Worker(new URL("./decode-worker.ts", import.meta.url), { name: "decode" });
    this.#worker = worker;
    worker.on("message", (answer: FromWorker) => {
      const done = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      done?.("decoded" in answer ? answer.decoded : new TuttiError(answer.code, answer.text));
    });
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = undefined;
      this.#failAll(`decoding broke down: ${error.message}`);
    });
    worker.unref();
    return worker;
  }

  #failAll(why: string): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const done of waiting) done(new TuttiError("TUTTI_INTERNAL", why));
  }
}
