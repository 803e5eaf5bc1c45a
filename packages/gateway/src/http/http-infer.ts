/** One inference over HTTP: body to tensors, tensors to body. */
import type { IncomingMessage } from "node:http";
import type { CancelSignal } from "@tutti/client";
import { INLINE_FREE_BYTES } from "@tutti/node/decode";
import { TuttiError } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import type { ClientBytes } from "../client-bytes.ts";
import { type AnswerTensor, answerBody, answerText } from "../oip/infer-answer.ts";
import { type InferHead, flagOf, tensorsOf } from "../oip/infer-head.ts";
import type { BodyOwner, LongBodies } from "../oip/long-bodies.ts";
import type { TensorMetadata } from "../oip/model-descriptions.ts";
import { type PredictForm, readHead } from "../oip/predict.ts";
import type { ProtocolInference, ProtocolOutcome } from "../oip/protocol-inference.ts";
import { termsLeft, readTerms } from "../oip/request-terms.ts";
import { type HttpAnswer, JSON_TYPE } from "./answers.ts";

export const JSON_LENGTH_HEADER = "inference-header-content-length";

export interface HttpInferCall {
  readonly model: string;
  readonly version: string | undefined;
  /** Application of the request's key; undefined: it may ask in any application's name. */
  readonly app?: string | undefined;
  readonly client: ClientBytes;
  readonly headers: IncomingMessage["headers"];
  readonly body: Uint8Array;
  readonly signal: CancelSignal;
  /** The model's inputs, where the body is one of KServe's V1 protocol. */
  readonly predict?: readonly TensorMetadata[] | undefined;
  /** The model's SLO. */
  readonly slo: Micros | undefined;
  /** When its first byte came, by `performance.now()`. */
  readonly receivedAt: number;
}

/** @throws {TuttiError} as a rejection */
export async function inferOverHttp(
  { model, version, app, client, headers, body, signal, predict, slo: own, receivedAt }: HttpInferCall,
  { protocol, longBodies }: { readonly protocol: ProtocolInference; readonly longBodies: LongBodies },
): Promise<HttpAnswer> {
  const jsonBytes = readJsonLength(headers[JSON_LENGTH_HEADER], body.byteLength);
  const json = body.subarray(0, jsonBytes);
  const startedAt = performance.now();
  const owner = json.byteLength > INLINE_FREE_BYTES ? ownerOf(headers, app, startedAt) : undefined;
  const isLong = owner !== undefined && longBodies.isLong(json.byteLength, owner.app);
  const read = () => readHead(json, predict);
  const head = isLong
    ? await longBodies.readHead({ json, predict }, owner)
    : owner === undefined
      ? read()
      : longBodies.readShort(owner.app, read);
  const inputs = tensorsOf(head, body.subarray(jsonBytes));
  let terms = readTerms((name) => textOf(headers[name]), head.parameters, { own: app });
  // Reading a long body counts against the SLO.
  if (isLong) terms = termsLeft(terms, own, performance.now() - startedAt);
  const { id, outputs } = head;
  const asked = { model, version, id, inputs, outputs, owner: app, client, terms, receivedAt, signal };
  const outcome = await protocol.infer(asked);
  return httpAnswerOf({ outcome, id, app: terms.app, isBinary: binaryOutputs(head), form: head.form }, longBodies);
}

/**
 * Owner of a body by key and headers alone: parameters stand in the body. @throws {TuttiError} INVALID_INPUT, FORBIDDEN
 */
function ownerOf(headers: HttpInferCall["headers"], own: string | undefined, arrivedAt: number): BodyOwner {
  const { app, slo, costs } = readTerms((name) => textOf(headers[name]), {}, { own });
  const last = costs?.at(-1)!.after ?? slo;
  return { app, until: last === undefined ? Infinity : arrivedAt + last / 1_000 };
}

export interface Answered {
  readonly outcome: ProtocolOutcome;
  readonly id: string | undefined;
  readonly app: string;
  /** Whether an output follows the JSON as raw bytes. */
  readonly isBinary: (name: string) => boolean;
  readonly form?: PredictForm | undefined;
}

/** @throws {TuttiError} OVERLOADED as a rejection */
export async function httpAnswerOf(answered: Answered, longBodies: LongBodies): Promise<HttpAnswer> {
  const { outcome, id, app, isBinary, form } = answered;
  const outputs: AnswerTensor[] = outcome.outputs.map((output) => ({ ...output, isBinary: isBinary(output.name) }));
  const answer = { model: outcome.model, version: outcome.version, id, outputs, form };
  if (longBodies.isShort(answer) && !outputs.some((output) => output.isBinary))
    return { status: 200, text: answerText(answer) };
  const { chunks, jsonBytes: answerJsonBytes } = answerBody(await longBodies.writeJson(answer, app), outputs);
  return {
    status: 200,
    chunks,
    headers:
      answerJsonBytes === undefined
        ? { "content-type": JSON_TYPE }
        : { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(answerJsonBytes) },
  };
}

function readJsonLength(header: string | string[] | undefined, bodyBytes: number): number {
  if (header === undefined) return bodyBytes;
  const length = Number(header);
  if (typeof header === "string" && /^\d{1,10}$/.test(header) && length <= bodyBytes) return length;
  throw new TuttiError(
    "TUTTI_INVALID_INPUT",
    `Inference-Header-Content-Length "${String(header).slice(0, 40)}" is no length of JSON within a body of ${bodyBytes} bytes`,
  );
}

/** Which outputs are binary: an output's own parameter wins over the request's. */
function binaryOutputs(head: InferHead): (name: string) => boolean {
  const byDefault = flagOf(head.parameters, "binary_data_output") ?? false;
  const own = new Map(head.outputs?.map(({ name, isBinary }) => [name, isBinary]));
  return (name) => own.get(name) ?? byDefault;
}

export const textOf = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value;
