import { type DecodeJob, type Decoded, type Decoder, hasManyValues, inlineDecoder } from "@tutti/ports/decode";
import type { Instant } from "@tutti/units";
import { FairWorkers } from "./fair-workers.ts";
import { INLINE_FREE_BYTES, InlineTime, SHORT_BODY_WEIGHT } from "./inline-time.ts";
import type { ToWorker } from "./messages.ts";

/**
 * Largest bodies that are decoded on the caller's thread. JSON costs about 20 ns a byte, and so does msgpack that has
 * many values; tensors of bytes are little more than a copy.
 */
export const INLINE_VALUES_BYTES_MAX = 16_384;
export const INLINE_BYTES_MAX = 1_048_576;
const WAITING_MAX = 64;
/** Least decoding cost of a byte, in µs. */
const VALUE_BYTE_US = 0.01;
const BYTE_US = 0.0002;

/** Decodes long bodies, and those of who sends too many, on threads that are started on demand. */
export class WorkerDecoder implements Decoder {
  readonly #now: () => Instant;
  readonly #workers: FairWorkers<{ readonly decoded: Decoded }>;
  readonly #inline = new InlineTime();

  /** @param now - of the clock that deadlines refer to */
  constructor(now: () => Instant, threads?: number) {
    this.#now = now;
    this.#workers = new FairWorkers({
      ...{ script: new URL("./decode-worker.ts", import.meta.url), name: "decoding", jobsMax: WAITING_MAX },
      full: `${WAITING_MAX} long bodies, or as much of short ones, wait to be decoded already: send binary tensors`,
      ...(threads !== undefined && { threads }),
    });
  }

  decode(job: DecodeJob, done: (outcome: Decoded | Error) => void): void {
    const { form, spec, app, deadline } = job;
    const bytes = job.payload.byteLength;
    const isOfValues = bytes > INLINE_FREE_BYTES && hasManyValues(job);
    const isShort = bytes <= (isOfValues ? INLINE_VALUES_BYTES_MAX : INLINE_BYTES_MAX);
    if (isShort && !isOfValues) return inlineDecoder.decode(job, done);
    if (isShort && (this.#inline.has(app) || !this.#workers.isOnline)) {
      let decoded!: Decoded | Error;
      this.#inline.take(app, () => inlineDecoder.decode(job, (outcome) => (decoded = outcome)));
      return done(decoded);
    }
    // The payload is borrowed, so it is copied; the copy's buffer is then transferred.
    const payload = new Uint8Array(job.payload);
    const needs = payload.byteLength * (isOfValues ? VALUE_BYTE_US : BYTE_US);
    this.#workers.run(
      {
        owner: app,
        weight: isShort ? SHORT_BODY_WEIGHT : 1,
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
