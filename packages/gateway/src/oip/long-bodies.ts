/** Reads and writes JSON, long ones on a worker thread: a body of 4 MB takes 100 ms, in which no other request would be answered and no heartbeat sent. */
import { Worker } from "node:worker_threads";
import { TuttiError } from "@tutti/protocol";
import { type AnswerHead, writeAnswerJson } from "./infer-answer.ts";
import { type InferHead, readInferHead } from "./infer-head.ts";
import type { FromBodyWorker, ToBodyWorker } from "./long-body-messages.ts";

/** As for the ingress (decode-worker): JSON costs about 20 ns a byte. */
export const INLINE_JSON_BYTES = 65_536;
/** Numbers of an answer, about ten bytes each. */
export const INLINE_NUMBERS = 8_192;
/** Bodies that may wait for the worker. */
export const LONG_BODIES_MAX = 64;

type Settle = (answer: FromBodyWorker) => void;
type WithoutId<T> = T extends unknown ? Omit<T, "id"> : never;

export class LongBodies {
  readonly #waiting = new Map<number, Settle>();
  #worker: Worker | undefined;
  #lastId = 0;

  /** @param json - borrowed until the promise settles */
  async readHead(json: Uint8Array): Promise<InferHead> {
    if (json.byteLength <= INLINE_JSON_BYTES) return readInferHead(json);
    const answer = await this.#ask({ json: new Uint8Array(json) });
    if ("head" in answer) return answer.head;
    throw errorOf(answer);
  }

  /** Whether it is written in less time than others may be kept waiting. */
  isShort(head: AnswerHead): boolean {
    let numbers = 0;
    for (const { isBinary, dims } of head.outputs) if (!isBinary) numbers += product(dims);
    return numbers <= INLINE_NUMBERS;
  }

  async writeJson(head: AnswerHead): Promise<Uint8Array> {
    if (this.isShort(head)) return writeAnswerJson(head);
    // Outputs that follow as raw bytes need not make the journey: only their length stands in the JSON.
    const answer = await this.#ask({ answer: head });
    if ("written" in answer) return answer.written;
    throw errorOf(answer);
  }

  close(): Promise<unknown> {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#failAll("the gateway is stopping");
    return worker === undefined ? Promise.resolve() : worker.terminate();
  }

  #ask(job: WithoutId<ToBodyWorker>): Promise<FromBodyWorker> {
    if (this.#waiting.size >= LONG_BODIES_MAX)
      throw new TuttiError(
        "TUTTI_OVERLOADED",
        `${LONG_BODIES_MAX} long JSON bodies wait already: send binary tensors (LONG_BODIES_MAX)`,
        { retryAfterMs: 50 },
      );
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      const message = { ...job, id } as ToBodyWorker;
      this.#running().postMessage(message, "json" in job ? [job.json.buffer as ArrayBuffer] : []);
    });
  }

  #running(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const worker = new Worker(new URL("./long-body-worker.ts", import.meta.url), { name: "long-bodies" });
    this.#worker = worker;
    worker.on("message", (answer: FromBodyWorker) => {
      const settle = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      settle?.(answer);
    });
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = undefined;
      this.#failAll(`reading bodies broke down: ${error.message}`);
    });
    worker.unref();
    return worker;
  }

  #failAll(text: string): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const settle of waiting) settle({ id: 0, code: "TUTTI_INTERNAL", text });
  }
}

const product = (dims: readonly number[]): number => dims.reduce((count, dim) => count * dim, 1);
const errorOf = (answer: FromBodyWorker): TuttiError =>
  "code" in answer
    ? new TuttiError(answer.code, answer.text)
    : new TuttiError("TUTTI_INTERNAL", "a body was read as something else");
