/** Answers over HTTP. */
import type { ServerResponse } from "node:http";
import { TuttiError, errorBody } from "@tutti/protocol";
import type { BodyReader } from "./body-reader.ts";

export interface HttpAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body?: unknown;
  /** JSON in serialised form. */
  readonly text?: string;
  /** Raw bytes, instead of JSON. */
  readonly chunks?: readonly Uint8Array[];
}

export const JSON_TYPE = "application/json";

/** The Retry-After header, in whole seconds; the body has the exact time. */
export const retryAfter = (retryAfterMs: number | undefined): Readonly<Record<string, string>> =>
  retryAfterMs === undefined ? {} : { "retry-after": String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) };

const CHALLENGE = { "www-authenticate": 'Bearer realm="tutti"' } as const;

/**
 * Makes any failure an answer. An error that is no TuttiError is a fault of ours, whose text could reveal internals, so
 * a fixed text replaces it.
 */
export function failureAnswer(failure: unknown): HttpAnswer {
  const error =
    failure instanceof TuttiError
      ? failure
      : new TuttiError("TUTTI_INTERNAL", "the request failed because of a fault on our side", { cause: failure });
  const headers = error.code === "TUTTI_UNAUTHENTICATED" ? CHALLENGE : retryAfter(error.retryAfterMs);
  return { status: error.status, headers, body: errorBody(error) };
}

/** Shorter answers are not counted: a socket takes them at once. */
const SHORT_BYTES = 65_536;

/**
 * Counts a long answer until its client has read it. Clients that don't read would otherwise make us hold any number.
 * @returns OVERLOADED where there is no room
 */
export function heldUntilSent(answer: HttpAnswer, response: ServerResponse, bodies: BodyReader): HttpAnswer {
  const { chunks, text = "" } = answer;
  const bytes = chunks === undefined ? text.length : chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (bytes <= SHORT_BYTES || response.destroyed) return answer;
  const client = bodies.clientOf(response.req.socket);
  if (!bodies.hold(bytes, client)) return failureAnswer(bodies.full());
  response.once("close", () => bodies.release(bytes, client));
  return answer;
}

export function send(response: ServerResponse, answer: HttpAnswer): void {
  if (response.destroyed || response.headersSent) return;
  if (answer.chunks === undefined) return sendText(response, answer);
  const { chunks } = answer;
  const length = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  response.writeHead(answer.status, {
    "content-length": String(length),
    "x-content-type-options": "nosniff",
    ...answer.headers,
  });
  if (length <= JOINED_BYTES) return void response.end(Buffer.concat(chunks, length).toString("latin1"), "latin1");
  for (const chunk of chunks) response.write(chunk);
  response.end();
}
/** Node joins a text with the head, but writes each buffer by itself: up to here joining them costs less. */
const JOINED_BYTES = 16_384;

const ASCII = /^[\x00-\x7f]*$/;

/** Sends head and body in one write. */
function sendText(
  response: ServerResponse,
  { status, headers, body, text = `${JSON.stringify(body)}\n` }: HttpAnswer,
): void {
  const encoding = ASCII.test(text) ? "latin1" : "utf8";
  response.writeHead(status, {
    "content-type": JSON_TYPE,
    "content-length": encoding === "latin1" ? text.length : Buffer.byteLength(text),
    "x-content-type-options": "nosniff",
    ...headers,
  });
  response.end(text, encoding);
}
