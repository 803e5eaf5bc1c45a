import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { CONTENT, HEADER, TuttiError, errorBody, publicNameOf } from "@tutti/protocol";
import { type Form, encodeAnswer, toJson } from "@tutti/wire";
import { NOBODY } from "@tutti/actors/runtime";
import type { PendingRequest } from "./pending-request.ts";
import { UnackedReplies } from "./unacked-replies.ts";

/** The model or pipeline that answered. */
interface Answerer {
  readonly name: string;
  readonly version: string;
  readonly outputs: readonly { readonly name: string }[];
}

/** Room for the subject, the headers and the protocol line beside the payload. */
const ENVELOPE_BYTES = 1_024;

/**
 * Sends answers to publishers: outputs in the form of the request, or an error in the form of NATS services. No answer
 * is lost with a connection.
 */
export class Answers {
  readonly #bus: Bus;
  readonly #unackedReplies: UnackedReplies;
  /** Encoded refusals that many requests share. */
  readonly #alike = new WeakMap<
    TuttiError,
    { readonly payload: Uint8Array; readonly headers: Record<string, string> }
  >();

  constructor(bus: Bus, clock: Clock) {
    this.#bus = bus;
    this.#unackedReplies = new UnackedReplies({ bus, clock });
  }

  get figures(): { readonly answersKept: number; readonly answersRepeated: number; readonly answersLost: number } {
    const { size, repeated, lost } = this.#unackedReplies;
    return { answersKept: size, answersRepeated: repeated, answersLost: lost };
  }

  /** Calls back when all answers have left. */
  drain(done: () => void): void {
    this.#unackedReplies.drain(done);
  }

  /** @returns the error that was sent instead, if the outputs are unreadable or don't fit into one message */
  ok(request: PendingRequest, spec: Answerer, tensors: Uint8Array): TuttiError | undefined {
    const { reply, form, publisherId, wanted } = request;
    let payload: Uint8Array;
    try {
      payload = encodeAnswer(form, {
        model: publicNameOf(spec.name),
        version: spec.version,
        tensors,
        ...(publisherId === undefined ? {} : { id: publisherId }),
        ...(wanted === undefined ? {} : { wanted }),
      });
    } catch (error) {
      const failure = new TuttiError("TUTTI_INTERNAL", "the executor's outputs can't be read", { cause: error });
      this.refuse(reply, failure);
      return failure;
    }
    const room = this.#bus.payloadMax - ENVELOPE_BYTES;
    if (payload.byteLength > room) {
      const names = spec.outputs.map((output) => output.name).join(", ");
      const failure = new TuttiError(
        "TUTTI_TOO_LARGE",
        `the answer has ${payload.byteLength} bytes, the server takes ${room}: ask for fewer outputs (${names}) with ${HEADER.outputs}${form === "binary" ? "" : `, or in binary form (${CONTENT.binary})`}`,
      );
      this.refuse(reply, failure);
      return failure;
    }
    // Outputs are borrowed, and in binary form they are the payload.
    const owned = payload === tensors ? new Uint8Array(payload) : payload;
    // A header costs a microsecond on each side, and a reader without one assumes JSON.
    const headers = form === "json" ? undefined : FORM_HEADERS[form];
    this.#send(reply, owned, request.isVersioned ? { ...headers, [HEADER.version]: spec.version } : headers);
    return undefined;
  }

  refuse(reply: string, error: TuttiError): void {
    const headers = { [HEADER.error]: oneLine(error.message), [HEADER.errorCode]: String(error.status) };
    this.#send(reply, toJson(errorBody(error)), headers);
  }

  /**
   * Sends one refusal to many requests. It is encoded once, and not kept until it is confirmed, which would cost an
   * overloaded ingress more than the refusal. A publisher that misses it because a connection breaks just then hears
   * nothing, as from an ingress that died. Without a connection it waits for the next like other answers.
   */
  refuseAlike(reply: string, error: TuttiError): void {
    let ready = this.#alike.get(error);
    if (ready === undefined) {
      const headers = { [HEADER.error]: oneLine(error.message), [HEADER.errorCode]: String(error.status) };
      this.#alike.set(error, (ready = { payload: toJson(errorBody(error)), headers }));
    }
    const { payload, headers } = ready;
    if (!this.#bus.publish(reply, payload, { headers }) && !this.#bus.connected) this.#send(reply, payload, headers);
  }

  #send(reply: string, payload: Uint8Array, headers: Readonly<Record<string, string>> | undefined): void {
    // An answer over a near link needs no server, so it is not lost with the connection to one.
    if (reply !== NOBODY && this.#bus.isNear?.(reply) !== true) this.#unackedReplies.send(reply, payload, headers);
    else this.#bus.publish(reply, payload, headers === undefined ? { owned: true } : { headers, owned: true });
  }
}

const FORM_HEADERS: Readonly<Record<Form, Readonly<Record<string, string>>>> = {
  json: { [HEADER.contentType]: CONTENT.json },
  msgpack: { [HEADER.contentType]: CONTENT.msgpack },
  binary: { [HEADER.contentType]: CONTENT.binary },
};

/** Header values are single lines of ASCII: a text from outside must not forge another header. */
const oneLine = (text: string): string => text.replace(/[^\x20-\x7e]+/g, " ").slice(0, 500);
