/** Decodes a reply: an answer with outputs, or an error with its code. */
import type { Delivery } from "@tutti/ports/bus";
import { ERROR_STATUS, type ErrorBody, type ErrorCode, HEADER, type Tensor, TuttiError } from "@tutti/protocol";
import { decodeAnswer, formOf } from "@tutti/wire";
import type { TensorValue } from "./tensors.ts";

export interface InferResult extends Omit<TensorAnswer, "outputs"> {
  readonly outputs: Readonly<Record<string, TensorValue>>;
}

/** A decoded answer, its tensors as they travel. */
export interface TensorAnswer {
  readonly outputs: readonly Tensor[];
  readonly model: string;
  /**
   * The body names it in JSON. In binary form, which the client sends, an answer has it only where the request named a
   * version, or versions share its model's requests; else it is undefined.
   */
  readonly version: string | undefined;
  /** Number of requests in the batch. Its header is reserved: undefined in answers that come as messages. */
  readonly batchSize: number | undefined;
  /** From arrival at the ingress to the start of its run, in microseconds; reserved and undefined like batchSize. */
  readonly queueUs: number | undefined;
}

/**
 * Decodes a delivery and never throws: an unreadable one is an INTERNAL error. The payload may be borrowed; outputs own
 * their memory.
 */
export function readAnswer(delivery: Delivery, target: string): TensorAnswer | TuttiError {
  const failure = readFailure(delivery, target);
  if (failure !== undefined) return failure;
  try {
    const form = formOf(delivery.header(HEADER.contentType), delivery.payload);
    if (form === undefined) return internal("the answer has an unknown form");
    const { model, version, outputs } = decodeAnswer(form, ownBytes(delivery.payload));
    return {
      outputs,
      model: model === "" ? target : model,
      version: version === "" ? delivery.header(HEADER.version) : version,
      batchSize: numberOf(delivery.header(HEADER.batchSize)),
      queueUs: numberOf(delivery.header(HEADER.queueUs)),
    };
  } catch (cause) {
    return internal(`the answer can't be read: ${(cause as Error).message}`, cause);
  }
}

/** A payload that spans its buffer was made for this delivery. Any other is part of a read buffer and is copied. */
const ownBytes = (payload: Uint8Array): Uint8Array =>
  payload.byteLength === payload.buffer.byteLength ? payload : new Uint8Array(payload);

/** The failure that an answer reports, or undefined where it carries outputs. */
export function readFailure(delivery: Delivery, target: string): TuttiError | undefined {
  const status = delivery.header(HEADER.errorCode);
  const text = delivery.header(HEADER.error);
  if (status !== undefined || text !== undefined) return readError(delivery.payload, Number(status), text);
  // No form of an answer is empty: an empty payload is the server's 503, no responders (nobody subscribes).
  if (delivery.payload.byteLength > 0) return undefined;
  return new TuttiError(
    "TUTTI_UNAVAILABLE",
    `no ingress is there to take a request for ${target}: start one with \`tutti up\` or \`tutti run ingress\``,
  );
}

function readError(payload: Uint8Array, status: number, text: string | undefined): TuttiError {
  const body = parseBody(payload);
  const code = body?.code ?? codeOfStatus(status);
  const known = Object.hasOwn(ERROR_STATUS, code) ? code : codeOfStatus(status);
  return new TuttiError(known, body?.error ?? text ?? "the server gave no reason", {
    ...(typeof body?.retryable === "boolean" && { retryable: body.retryable }),
    ...(typeof body?.retryAfterMs === "number" && { retryAfterMs: body.retryAfterMs }),
  });
}

function parseBody(payload: Uint8Array): Partial<ErrorBody> | undefined {
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(payload));
    return typeof body === "object" && body !== null ? body : undefined;
  } catch {
    return undefined; // the headers alone say enough
  }
}

/** The first code with this status; several share 503 and 422, and a body tells them apart. */
function codeOfStatus(status: number): ErrorCode {
  if (status === 503) return "TUTTI_UNAVAILABLE";
  const entry = Object.entries(ERROR_STATUS).find(([, value]) => value === status);
  return (entry?.[0] as ErrorCode | undefined) ?? "TUTTI_INTERNAL";
}

function numberOf(text: string | undefined): number | undefined {
  const value = Number(text);
  return text === undefined || !Number.isFinite(value) ? undefined : value;
}

const internal = (text: string, cause?: unknown): TuttiError => new TuttiError("TUTTI_INTERNAL", text, { cause });
