/** Messages that stay in their process. */
import type { Delivery, PublishOptions } from "./bus.ts";

/** A message that stays in this process. */
export class LocalDelivery implements Delivery {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly reply: string | undefined;
  readonly #headers: Readonly<Record<string, string>> | undefined;

  constructor(
    subject: string,
    payload: Uint8Array,
    reply: string | undefined,
    headers: Readonly<Record<string, string>> | undefined,
  ) {
    this.subject = subject;
    this.payload = payload;
    this.reply = reply;
    this.#headers = headers;
  }

  get headerBytes(): number {
    return this.#headers === undefined ? 0 : headerBytesOf(this.#headers);
  }

  header(name: string): string | undefined {
    return this.#headers !== undefined && Object.hasOwn(this.#headers, name) ? this.#headers[name] : undefined;
  }
}

export function deliveryOf(
  subject: string,
  payload: Uint8Array,
  options: PublishOptions | undefined,
  mustCopy: boolean,
): Delivery {
  return new LocalDelivery(subject, mustCopy ? new Uint8Array(payload) : payload, options?.reply, options?.headers);
}

/** A copy for a second reader: the payload is borrowed, and the first one may change it. */
export function copied(delivery: Delivery): Delivery {
  const { subject, reply, headerBytes, headersUnreadable } = delivery;
  return {
    subject,
    payload: new Uint8Array(delivery.payload),
    reply,
    header: (name) => delivery.header(name),
    ...(headerBytes !== undefined && { headerBytes }),
    ...(headersUnreadable !== undefined && { headersUnreadable }),
  };
}

/** Bytes of the headers as a NATS server counts them: the version line, a line for each, and an empty one. */
export function headerBytesOf(headers: Readonly<Record<string, string>>): number {
  let bytes = 12;
  for (const name in headers) bytes += name.length + headers[name]!.length + 4;
  return bytes;
}
