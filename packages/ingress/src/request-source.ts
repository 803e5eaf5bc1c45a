/**
 * The terms of a request, independent of the way it came. Each is read when it is needed, and throws INVALID_INPUT if
 * it is invalid.
 */
import type { Delivery } from "@tutti/ports/bus";
import type { DecodeJob, Decoded, Decoder } from "@tutti/ports/decode";
import { HEADER, type ModelSpec, type TuttiError } from "@tutti/protocol";
import { type Instant, instant } from "@tutti/units";
import { type Form, fillRow } from "@tutti/wire";
import type { LocalRequest } from "@tutti/actors/runtime";
import { type Timing, readForm, readPriority, readSizeHint, readTiming } from "./admission.ts";

/** Context in which a body is read. */
export interface Reading extends Pick<DecodeJob, "spec" | "app" | "deadline"> {
  readonly decoder: Decoder;
}

/** A body that becomes a row. */
export interface RequestBody {
  readonly byteLength: number;
  decode(reading: Reading, done: (outcome: Decoded | Error) => void): void;
}

export interface RequestSource extends RequestBody {
  /** A retry with the same id goes to the same version. */
  readonly id: string;
  readonly version: string | undefined;
  priority(): number;
  timing(spec: Pick<ModelSpec, "slo">, arrivedAt: Instant): Timing;
  form(): Form;
  /** 0: none. */
  sizeHint(): number;
  wantedText(): string | undefined;
}

/** A publisher's message. */
export class MessageSource implements RequestSource {
  readonly id: string;
  readonly #delivery: Delivery;

  constructor(delivery: Delivery, reply: string) {
    this.#delivery = delivery;
    this.id = delivery.header(HEADER.messageId) ?? reply;
  }
  get version(): string | undefined {
    return this.#delivery.header(HEADER.version);
  }
  get byteLength(): number {
    return this.#delivery.payload.byteLength;
  }
  priority(): number {
    return readPriority(this.#delivery);
  }
  timing(spec: Pick<ModelSpec, "slo">, arrivedAt: Instant): Timing {
    return readTiming(this.#delivery, { spec }, arrivedAt);
  }
  form(): Form {
    return readForm(this.#delivery);
  }
  sizeHint(): number {
    return readSizeHint(this.#delivery);
  }
  wantedText(): string | undefined {
    return this.#delivery.header(HEADER.outputs);
  }
  decode({ spec, app, deadline, decoder }: Reading, done: (outcome: Decoded | Error) => void): void {
    decoder.decode({ form: this.form(), payload: this.#delivery.payload, spec, app, deadline }, done);
  }
}

/** Tensors in binary form. */
export class BinaryBody implements RequestBody {
  readonly #tensors: Uint8Array;

  constructor(tensors: Uint8Array) {
    this.#tensors = tensors;
  }
  get byteLength(): number {
    return this.#tensors.byteLength;
  }
  decode({ spec, app, deadline, decoder }: Reading, done: (outcome: Decoded | Error) => void): void {
    decoder.decode({ form: "binary", payload: this.#tensors, spec, app, deadline }, done);
  }
}

let requestsWithoutId = 0;

/** A request that needs no encoding, neither on the way in nor on the way out. */
export class LocalSource implements RequestSource {
  readonly id: string;
  readonly byteLength: number;
  readonly #request: LocalRequest;

  constructor(request: LocalRequest) {
    this.#request = request;
    this.id = request.id ?? `local-${++requestsWithoutId}`;
    let bytes = 0;
    for (const { data } of request.tensors) bytes += data.byteLength;
    this.byteLength = bytes;
  }
  get version(): string | undefined {
    return this.#request.version;
  }
  priority(): number {
    return this.#request.priority ?? 0;
  }
  timing({ slo: own }: Pick<ModelSpec, "slo">, arrivedAt: Instant): Timing {
    const slo = this.#request.slo ?? own;
    return { deadline: instant(arrivedAt + slo), slo };
  }
  form(): Form {
    return "binary";
  }
  sizeHint(): number {
    return this.#request.size ?? 0;
  }
  wantedText(): undefined {
    return undefined;
  }
  decode({ spec }: Reading, done: (outcome: Decoded | Error) => void): void {
    const { tensors, wanted } = this.#request;
    let outcome: Decoded | Error;
    try {
      const { bucket, units, row } = fillRow(spec, { inputs: tensors }, true);
      outcome = { id: undefined, wanted, bucket, units, row };
    } catch (error) {
      outcome = error as TuttiError;
    }
    done(outcome);
  }
}
