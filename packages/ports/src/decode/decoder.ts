import type { ModelSpec } from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import { type Form, decodeRequest, fillRow } from "@tutti/wire";

export interface Body {
  readonly form: Form;
  /** Borrowed: a decoder that answers later copies it. */
  readonly payload: Uint8Array;
  readonly spec: ModelSpec;
}
export interface DecodeJob extends Body {
  /** Those of other applications don't wait for its bodies. */
  readonly app: string;
  /** What can't be decoded by then need not be. */
  readonly deadline: Instant;
}
export interface Decoded {
  readonly id: string | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly bucket: number;
  /** FilledRow. */
  readonly units: number;
  /** Owned by the receiver. */
  readonly row: Uint8Array;
}

/**
 * Turns a body into a row. Bodies that take long (JSON over 64 KB) are decoded by a worker, so that heartbeats and
 * timers are never late because of one (docs/architecture.md, 6); the rest in the same turn.
 */
export interface Decoder {
  /**
   * Calls back once, with the row or what `decodeRequest` and `fillRow` throw; OVERLOADED or DEADLINE_EXCEEDED where
   * there is no room or no time.
   */
  decode(job: DecodeJob, done: (outcome: Decoded | Error) => void): void;
}

export function decodeNow(job: Body): Decoded {
  const request = decodeRequest(job.form, job.payload);
  const { bucket, units, row } = fillRow(job.spec, request);
  return { id: request.id, wanted: request.outputs, bucket, units, row };
}

/** Decodes everything in the turn it came in: for tests, for the simulator, and for small bodies. */
export const inlineDecoder: Decoder = {
  decode(job, done) {
    let outcome: Decoded | Error;
    try {
      outcome = decodeNow(job);
    } catch (error) {
      outcome = error instanceof Error ? error : new Error(String(error));
    }
    done(outcome);
  },
};
