import type { ModelSpec } from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import { type Form, decodeRequest, fillRow, hasFewValues } from "@tutti/wire";

export interface Body {
  readonly form: Form;
  /** Encoded body; borrowed: a decoder that answers later copies it, unless `isOwned`. */
  readonly payload: Uint8Array;
  /** The payload was given away, and the row may be a view of it. Default: false. */
  readonly isOwned?: boolean;
  readonly spec: ModelSpec;
}
export interface DecodeJob extends Body {
  /** The requesting application; its bodies don't hold up those of other applications. */
  readonly app: string;
  /** Time after which the row is useless: a body that isn't decoded by then need not be. */
  readonly deadline: Instant;
}
export interface Decoded {
  readonly id: string | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly bucket: number;
  /** Units as in FilledRow. */
  readonly units: number;
  /** The row, owned by the receiver. */
  readonly row: Uint8Array;
}

/**
 * Turns a body into a row. Bodies that take long (JSON, and msgpack of many values), alone or together with others of
 * their application, are decoded by a worker, so that they never delay heartbeats and timers (docs/architecture.md, 6).
 * The others are decoded in the same turn.
 */
export interface Decoder {
  /**
   * Calls back once, with the row or with the error that `decodeRequest` or `fillRow` throws. Without room or time, the
   * error is OVERLOADED or DEADLINE_EXCEEDED.
   */
  decode(job: DecodeJob, done: (outcome: Decoded | Error) => void): void;
}

/** Values of a msgpack body that counts as one of bytes: 64 tensors with parameters. */
const FEW_VALUES = 1_024;

/** Whether a body consists of values, each of which takes time to read, and not of tensors' bytes. */
export const hasManyValues = ({ form, payload }: Pick<Body, "form" | "payload">): boolean =>
  form === "json" || (form === "msgpack" && !hasFewValues(payload, FEW_VALUES));

export function decodeNow(job: Body): Decoded {
  const request = decodeRequest(job.form, job.payload);
  const { bucket, units, row } = fillRow(job.spec, request, job.isOwned);
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
