import { type DecodeJob, type Decoded, type Decoder, hasManyValues, inlineDecoder } from "@tutti/ports/decode";
import type { Instant } from "@tutti/units";
import { FairWorkers } from "./fair-workers.ts";
import type { ToWorker } from "./messages.ts";

/**
 * Largest bodies that are decoded on the caller's thread. JSON costs about 20 ns a byte, and so does msgpack that has
 * many values; tensors of bytes are little more than a copy.
 */
export const INLINE_VALUES_BYTES_MAX = 65_536;
export const INLINE_BYTES_MAX = 1_048_576;
const WAITING_MAX = 64;
/** Least decoding cost of a byte, in µs. */
const VALUE_BYTE_US = 0.01;
const BYTE_US = 0.0002;

/** Decodes long bodies on threads that are started on demand. */
export class WorkerDecoder implements Decoder {
  readonly #now: () => Instant;
  readonly #workers: FairWorkers<{ readonly decoded: Decoded }>;

  /** @param now - of the clock that deadlines refer to */
  constructor(now: () => Instant, threads?: number) {
    this.#now = now;
    this.#workers = new FairWorkers({
      ...{ script: new URL("./decode-worker.ts", import.meta.url), name: "decoding", jobsMax: WAITING_MAX },
      full: `${WAITING_MAX} long bodies wait to be decoded already: send binary tensors`,
      ...(threads !== undefined && { threads }),
    });
  }

  decode(job: DecodeJob, done: (outcome: Decoded | Error) => void): void {
    const isOfValues = job.payload.byteLength > INLINE_VALUES_BYTES_MAX && hasManyValues(job);
    if (!isOfValues && job.payload.byteLength <= INLINE_BYTES_MAX) return inlineDecoder.decode(job, done);
    const { form, spec, app, deadline } = job;
    // The payload is borrowed, so it is copied; the copy's buffer is then transferred.
    const payload = new Uint8Array(job.payload);
    const needs = payload.byteLength * (isOfValues ? VALUE_BYTE_US : BYTE_US);
    this.#workers.run(
      {
        owner: app,
        isTooLate: () => this.#now() + needs >= deadline,
        message: () => [{ form, spec, payload } satisfies ToWorker, [payload.buffer]],
      },
      (outcome) => done(outcome instanceof Error ? outcome : outcome.decoded),
    );
  }

  close(): Promise<void> {
    return this.#workers.close("the ingress is stopping");
  }
}
