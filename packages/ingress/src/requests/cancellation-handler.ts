import type { Delivery } from "@tutti/ports/bus";
import { REPLY_BYTES_MAX, TuttiError, isName, mayReply } from "@tutti/protocol";
import { fnv1a } from "@tutti/wire";
import type { PendingRequest } from "./pending-request.ts";

export const cancelledError = (): TuttiError => new TuttiError("TUTTI_CANCELLED", "cancelled by its publisher");

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Cancels requests that their publisher no longer wants. Nobody outside knows which ingress has a request, so every
 * ingress hears every cancellation. It names the reply subject, the one thing of a request that both sides know and
 * nobody else may use. The application is the last token of the cancellation's subject, which the server lets only that
 * application publish.
 */
export class CancellationHandler {
  readonly #replyScope: "app" | "any";
  readonly #onCancelled: (held: PendingRequest) => void;
  readonly #byReply = new Map<string, PendingRequest>();
  /** Requests to pipelines, which are cancelled as a whole. */
  readonly #wholes = new Map<string, { readonly appId: number; readonly cancel: () => void }>();
  /** Requests whose bodies are being read elsewhere: their application, and whether they were cancelled. */
  readonly #reading = new Map<string, { readonly app: string; isCancelled: boolean }>();

  constructor(replyScope: "app" | "any", onCancelled: (held: PendingRequest) => void) {
    this.#replyScope = replyScope;
    this.#onCancelled = onCancelled;
  }

  /** Warm-up requests and those of requesters in this process have no reply subject of their own. */
  hold(held: PendingRequest): void {
    if (held.onSettled === undefined && held.ticket === undefined) this.#byReply.set(held.reply, held);
  }
  release(held: PendingRequest): void {
    // A publisher may use one subject for several requests: the latest can be cancelled.
    if (this.#byReply.get(held.reply) === held) this.#byReply.delete(held.reply);
  }

  /** @returns a function that removes it */
  holdWhole(reply: string, appId: number, cancel: () => void): () => void {
    const whole = { appId, cancel };
    this.#wholes.set(reply, whole);
    return () => {
      if (this.#wholes.get(reply) === whole) this.#wholes.delete(reply);
    };
  }

  beginReading(reply: string, app: string): void {
    this.#reading.set(reply, { app, isCancelled: false });
  }
  /** @returns whether it was cancelled meanwhile */
  endReading(reply: string): boolean {
    const isCancelled = this.#reading.get(reply)?.isCancelled === true;
    this.#reading.delete(reply);
    return isCancelled;
  }

  /** Handles `cancel.<app>`, whose payload is the reply subject. Anything else is ignored. */
  onDelivery({ subject, payload }: Delivery): void {
    const [, app = "", ...rest] = subject.split(".");
    if (rest.length > 0 || !isName(app) || payload.byteLength > REPLY_BYTES_MAX) return;
    let reply: string;
    try {
      reply = decoder.decode(payload);
    } catch {
      return;
    }
    if (!mayReply(this.#replyScope, app, reply)) return;
    const reading = this.#reading.get(reply);
    if (reading?.app === app) reading.isCancelled = true;
    const held = this.#byReply.get(reply);
    if (held !== undefined && held.appId === fnv1a(app)) this.#onCancelled(held);
    const whole = this.#wholes.get(reply);
    if (whole !== undefined && whole.appId === fnv1a(app)) whole.cancel();
  }
}
