import { Worker } from "node:worker_threads";
import { type DecodeJob, type Decoded, type Decoder, inlineDecoder } from "@tutti/actors";
import { TuttiError } from "@tutti/protocol";
import type { DecodeReply, DecodeRequest } from "./decode-messages.ts";

/** Parsing this much JSON takes about half a millisecond; more would make heartbeats and timers late (docs/architecture.md, 6). */
export const INLINE_BYTES_MAX = 65_536;
/** Bodies that wait for the worker at once; beyond, OVERLOADED (T7). */
const WAITING_MAX = 256;

type Done = (outcome: Decoded | Error) => void;

/** Decodes small and binary bodies in the turn they came in, large texts in a worker thread. Every `done` is called exactly once. */
export class WorkerDecoder implements Decoder {
  readonly #waiting = new Map<number, Done>();
  #worker: Worker | undefined;
  #nextId = 1;

  decode(job: DecodeJob, done: Done): void {
    if (job.form === "binary" || job.payload.byteLength <= INLINE_BYTES_MAX) return inlineDecoder.decode(job, done);
    if (this.#waiting.size >= WAITING_MAX) {
      const text = `${WAITING_MAX} large bodies wait to be read already: send tensors in binary form, which needs no reading`;
      return done(new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 100 }));
    }
    const id = this.#nextId++;
    this.#waiting.set(id, done);
    const payload = new Uint8Array(job.payload); // the delivery's is borrowed
    const request: DecodeRequest = { id, form: job.form, payload, spec: job.spec };
    this.#ensureWorker().postMessage(request, [payload.buffer]);
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #ensureWorker(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const worker = new Worker(new URL("./decode-worker.ts", import.meta.url), { name: "tutti-decode" });
    worker.unref();
    worker.on("message", (reply: DecodeReply) => {
      const done = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if ("decoded" in reply) done?.(reply.decoded);
      else done?.(new TuttiError(reply.failure.code, reply.failure.text));
    });
    worker.on("error", () => undefined); // "exit" follows, and settles what waits
    worker.on("exit", () => {
      if (this.#worker === worker) this.#worker = undefined;
      const left = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const done of left)
        done(new TuttiError("TUTTI_INTERNAL", "reading the request failed", { retryable: true }));
    });
    this.#worker = worker;
    return worker;
  }
}
