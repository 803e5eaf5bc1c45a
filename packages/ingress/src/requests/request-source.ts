/** The terms and the body of a request, independent of the way it came: in a message, or without one. */
import type { Delivery } from "@tutti/ports/bus";
import type { Decoded, Decoder } from "@tutti/ports/decode";
import { HEADER, type TuttiError } from "@tutti/protocol";
import { instant } from "@tutti/units";
import { fillRow } from "@tutti/wire";
import type { LocalRequest } from "@tutti/actors/runtime";
import { readForm, readPriority, readSizeHint, readTiming, readWanted } from "../admission/admission.ts";
import { JOB_HELD_FOR, readIsJob } from "../admission/job-admission.ts";
import type { PendingRequest } from "./pending-request.ts";

/** A body that becomes a row. */
export interface RequestBody {
  readonly byteLength: number;
  /** Calls back once, perhaps before it returns. */
  decode(request: PendingRequest, decoder: Decoder, done: (outcome: Decoded | Error) => void): void;
}

/** Priority and kind are read alone: in an overload most requests are refused by these, their model and application. */
export interface RequestSource extends RequestBody {
  /** A retry with the same id goes to the same version. */
  readonly id: string;
  readonly version: string | undefined;
  readonly isJob: boolean;
  /** @throws {TuttiError} INVALID_INPUT */
  priority(): number;
  /** Sets all terms but the priority. @throws {TuttiError} INVALID_INPUT */
  readTerms(request: PendingRequest): void;
}

/** A body in the form of its request. */
export class EncodedBody implements RequestBody {
  readonly #payload: Uint8Array;
  readonly #isOwned: boolean;

  /** @param isOwned - the payload was given away: its row may be a view of it */
  constructor(payload: Uint8Array, isOwned = false) {
    this.#payload = payload;
    this.#isOwned = isOwned;
  }
  get byteLength(): number {
    return this.#payload.byteLength;
  }
  decode(
    { form, model, app, lastDeadline: deadline }: PendingRequest,
    decoder: Decoder,
    done: (outcome: Decoded | Error) => void,
  ): void {
    const isOwned = this.#isOwned;
    decoder.decode({ form, payload: this.#payload, isOwned, spec: model.spec, app, deadline }, done);
  }
}

/** A publisher's message. */
export class MessageSource extends EncodedBody implements RequestSource {
  readonly id: string;
  readonly isJob: boolean;
  readonly #delivery: Delivery;

  constructor(delivery: Delivery, reply: string) {
    super(delivery.payload, delivery.isOwned);
    this.#delivery = delivery;
    this.id = delivery.header(HEADER.messageId) ?? reply;
    this.isJob = readIsJob(delivery);
  }
  get version(): string | undefined {
    return this.#delivery.header(HEADER.version);
  }
  priority(): number {
    return readPriority(this.#delivery);
  }
  readTerms(request: PendingRequest): void {
    const delivery = this.#delivery;
    const { isJob, model, arrivedAt } = request;
    const [standard, farthest] = isJob ? [JOB_HELD_FOR, Infinity] : [model.spec.slo, undefined];
    const { deadline, slo, costs } = readTiming(delivery, standard, arrivedAt, farthest);
    request.deadline = deadline;
    request.slo = slo;
    request.costs = costs;
    request.form = readForm(delivery);
    request.units = readSizeHint(delivery);
    request.wanted = readWanted(delivery);
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
  get isJob(): boolean {
    return this.#request.isJob === true;
  }
  priority(): number {
    return this.#request.priority ?? 0;
  }
  readTerms(request: PendingRequest): void {
    const standard = request.isJob ? JOB_HELD_FOR : request.model.spec.slo;
    const { slo = standard, size = 0, wanted, costs } = this.#request;
    request.deadline = instant(request.arrivedAt + slo);
    request.slo = slo;
    request.costs = costs;
    request.units = size;
    request.wanted = wanted;
  }
  decode({ model }: PendingRequest, _: Decoder, done: (outcome: Decoded | Error) => void): void {
    let outcome: Decoded | Error;
    try {
      const { bucket, units, row } = fillRow(model.spec, { inputs: this.#request.tensors }, true);
      outcome = { id: undefined, wanted: undefined, bucket, units, row };
    } catch (error) {
      outcome = error as TuttiError;
    }
    done(outcome);
  }
}
