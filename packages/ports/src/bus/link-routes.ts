/**
 * The links of one bus: direct connections with other processes of this host. It keeps the subjects that their other
 * ends hear.
 *
 *   LINK-1. Each end tells the other its subscriptions (except queue groups: the server chooses among their members),
 *           then that it is ready.
 *   LINK-2. Before a link carries the first message, a barrier has travelled over the connection and been confirmed. So
 *           everything that the connection carried before has arrived. Messages published meanwhile wait, and go over
 *           the link (HOST-1). A barrier that was on its way when the connection broke does not come back: the link
 *           ends with it.
 *   LINK-3. A link that breaks loses what it carried, as a connection does; messages then take the connection again.
 */
import type { Bus, Delivery, DeliverySubscription, PublishOptions } from "./bus.ts";
import { InterestTable } from "./interest-table.ts";
import { LINKED_HEADER } from "./linked-header.ts";
import { LocalDelivery } from "./local-delivery.ts";

/** Messages between the two ends of a link. */
export type LinkMessage =
  | {
      readonly kind: "message";
      readonly subject: string;
      readonly reply: string | undefined;
      readonly headers: Readonly<Record<string, string>> | undefined;
      readonly payload: Uint8Array;
    }
  | { readonly kind: "interest"; readonly pattern: string; readonly exclusive: boolean }
  | { readonly kind: "no-interest"; readonly pattern: string; readonly exclusive: boolean }
  /** The other end has sent all its subscriptions; it receives barriers at this subject. */
  | { readonly kind: "ready"; readonly inbox: string }
  /** The barrier has arrived. */
  | { readonly kind: "go" };

/** One end of a connection between two processes: ordered, reliable until it breaks. */
export interface LinkEnd {
  /** Id of the link: the same at both ends, and unique. */
  readonly id: string;
  /**
   * @param isOwned - the payload was given away; otherwise it may be reused once the call returns
   * @returns false if the link is broken or too much waits
   */
  send(message: LinkMessage, isOwned?: boolean): boolean;
  /** As `send`, for a payload in segments that are never changed again: they are written from where they lie. */
  sendSegments?(subject: string, segments: readonly Uint8Array[]): boolean;
  /** Sets the handlers; called once. Messages that came before are delivered first. */
  open(handlers: LinkHandlers): void;
  close(): void;
}
export interface LinkHandlers {
  onMessage(message: LinkMessage): void;
  onClosed(): void;
}
export interface LinkSwitch {
  /** True if messages to the other end go over this link. */
  readonly isUp: boolean;
  close(): void;
}

export interface LinkTraffic {
  readonly messages: number;
  readonly bytes: number;
}

interface PeerInterest {
  readonly link: Link;
  readonly pattern: string;
  readonly isExclusive: boolean;
}
/** A message that waits for the barrier. The connection has already taken a broadcast, for processes without a link. */
interface Waiting {
  readonly message: Extract<LinkMessage, { kind: "message" }>;
  readonly isExclusive: boolean;
}
type Arrive = (subject: string, delivery: Delivery) => boolean;

export interface LinkRoutesOptions {
  readonly under: Bus;
  /** Delivers a message to the subscribers here; false: there is none. */
  readonly arrive: Arrive;
  readonly startTimer: (delayMs: number, run: () => void) => { stop(): void };
  readonly barrierSubject: () => string;
  readonly barrierMs: number;
}

/**
 * Time after which an unconfirmed link is given up, ms. Messages wait for it, and what a link carries is lost where the
 * server has lost the barrier: no longer than a heartbeat's period, and no longer than most SLOs. On an idle machine a
 * barrier takes below 1 ms, while many processes start on a busy one up to 70 ms.
 */
export const BARRIER_MS = 100;
/** Most ended links whose ids are remembered: the connection's copies of their messages may come later. */
const ENDED_KEPT = 1_024;
/** Most messages that may wait for the barrier. */
const WAITING_MAX = 10_000;

class Link implements LinkSwitch {
  readonly end: LinkEnd;
  readonly interests: PeerInterest[] = [];
  /**
   * `telling`: the connection carries everything. `switching`: messages wait for the barrier. `up`: they go at once.
   */
  state: "telling" | "switching" | "up" | "closed" = "telling";
  waiting: Waiting[] = [];
  barrier: DeliverySubscription | undefined;
  timer: { stop(): void } | undefined;
  /** The other end's barrier has arrived. */
  hasHeard = false;

  readonly onClosed: () => void;

  constructor(end: LinkEnd, onClosed: () => void) {
    this.end = end;
    this.onClosed = onClosed;
  }
  get isUp(): boolean {
    return this.state === "up";
  }
  /** True when neither end waits for a barrier. */
  get isCertain(): boolean {
    return this.state === "up" && this.hasHeard;
  }
  get carries(): boolean {
    return this.state === "up" || this.state === "switching";
  }
  /** Sends a message or queues it, with its payload copied, until the barrier is confirmed. */
  send(subject: string, payload: Uint8Array, options: PublishOptions | undefined, isExclusive: boolean): boolean {
    const reply = options?.reply;
    const headers = options?.headers;
    if (this.state === "up")
      return this.end.send({ kind: "message", subject, reply, headers, payload }, options?.owned);
    if (this.waiting.length >= WAITING_MAX) return false;
    const message = { kind: "message", subject, reply, headers, payload: new Uint8Array(payload) } as const;
    this.waiting.push({ message, isExclusive });
    return true;
  }
  /** Sends a control message. If it can't be sent, the link closes: both ends must know the same. */
  tell(message: LinkMessage): void {
    if (!this.end.send(message)) this.close();
  }
  close(): void {
    this.end.close();
  }
}

export class LinkRoutes {
  readonly #under: Bus;
  readonly #arrive: Arrive;
  readonly #startTimer: LinkRoutesOptions["startTimer"];
  readonly #barrierSubject: () => string;
  readonly #barrierMs: number;
  readonly #links = new Set<Link>();
  readonly #ids = new Set<string>();
  readonly #endedIds: string[] = [];
  readonly #interests = new InterestTable<PeerInterest>();
  readonly #traffic = { messages: 0, bytes: 0 };

  constructor({ under, arrive, startTimer, barrierSubject, barrierMs }: LinkRoutesOptions) {
    this.#under = under;
    this.#arrive = arrive;
    this.#startTimer = startTimer;
    this.#barrierSubject = barrierSubject;
    this.#barrierMs = barrierMs;
    under.onStatus(({ kind }) => {
      if (kind === "disconnected") for (const link of [...this.#links]) if (!link.isCertain) link.close();
    });
  }

  get size(): number {
    return this.#links.size;
  }
  /** Messages that went over links, and the bytes of their payloads. */
  get traffic(): LinkTraffic {
    return this.#traffic;
  }

  add(end: LinkEnd, own: readonly Interest[], onClosed: () => void = () => undefined): LinkSwitch {
    const link = new Link(end, onClosed);
    this.#links.add(link);
    this.#ids.add(end.id);
    const inbox = this.#barrierSubject();
    link.barrier = this.#under.subscribe(inbox, () => {
      link.hasHeard = true;
      link.tell({ kind: "go" });
    });
    end.open({
      onMessage: (message) => this.#onMessage(link, message),
      onClosed: () => this.#onClosed(link),
    });
    for (const interest of own) if (interest.queue === undefined) link.tell(toldOf("interest", interest));
    // The server must have the subscription to the barrier before the other end can publish there.
    this.#under.flush((reached) => {
      if (reached && link.state !== "closed") link.tell({ kind: "ready", inbox });
      else end.close();
    });
    return link;
  }

  interestBegins(interest: Interest): void {
    if (this.#links.size === 0 || interest.queue !== undefined) return;
    for (const link of this.#links) link.tell(toldOf("interest", interest));
  }
  interestEnds(interest: Interest): void {
    if (this.#links.size === 0 || interest.queue !== undefined) return;
    for (const link of this.#links) link.tell(toldOf("no-interest", interest));
  }

  hears(subject: string): boolean {
    return this.#links.size > 0 && this.#interests.match(subject).some(({ link }) => link.carries);
  }

  /** @returns the ids of the links that carry it, for the connection's copy */
  publish(
    subject: string,
    payload: Uint8Array,
    options: PublishOptions | undefined,
  ): "exclusively" | "nobody" | (string & {}) {
    if (this.#links.size === 0) return "nobody";
    let carriers = "";
    for (const { link, isExclusive } of this.#interests.match(subject)) {
      if (!link.carries || isNamed(carriers, link.end.id)) continue;
      if (!link.send(subject, payload, options, isExclusive)) {
        link.close();
        continue;
      }
      this.#traffic.messages++;
      this.#traffic.bytes += payload.byteLength;
      if (isExclusive) return "exclusively";
      carriers = carriers === "" ? link.end.id : `${carriers},${link.end.id}`;
    }
    return carriers === "" ? "nobody" : carriers;
  }

  /** @returns false if no link that is up leads to the only subscriber; then nothing is sent */
  publishSegments(subject: string, segments: readonly Uint8Array[], byteLength: number): boolean {
    const to = this.#interests.match(subject).find(({ link, isExclusive }) => isExclusive && link.isUp)?.link;
    if (to?.end.sendSegments === undefined) return false;
    if (!to.end.sendSegments(subject, segments)) {
      to.close();
      return false;
    }
    this.#traffic.messages++;
    this.#traffic.bytes += byteLength;
    return true;
  }

  /** True if a link has also brought this message of the connection (HOST-2). */
  carried(delivery: Delivery): boolean {
    if (this.#ids.size === 0) return false;
    const carriers = delivery.header(LINKED_HEADER);
    return carriers !== undefined && carriers.split(",").some((id) => this.#ids.has(id));
  }

  close(): void {
    for (const link of [...this.#links]) link.close();
  }

  #onMessage(link: Link, message: LinkMessage): void {
    switch (message.kind) {
      case "message":
        return this.#onArrived(link, message);
      case "interest": {
        const interest = { link, pattern: message.pattern, isExclusive: message.exclusive };
        link.interests.push(interest);
        return this.#interests.add(message.pattern, interest);
      }
      case "no-interest": {
        const at = link.interests.findIndex(
          ({ pattern, isExclusive }) => pattern === message.pattern && isExclusive === message.exclusive,
        );
        if (at < 0) return;
        const [interest] = link.interests.splice(at, 1);
        return this.#interests.remove(message.pattern, interest!);
      }
      case "ready":
        return this.#sendBarrier(link, message.inbox);
      case "go":
        return this.#open(link);
    }
  }

  #onArrived(link: Link, { subject, reply, headers, payload }: Extract<LinkMessage, { kind: "message" }>): void {
    if (this.#arrive(subject, new LocalDelivery(subject, payload, reply, headers)) || reply === undefined) return;
    // Answer 503 as a server would: the requester learns that there is no subscriber any more.
    link.end.send({ kind: "message", subject: reply, reply: undefined, headers: NOBODY, payload: EMPTY });
  }

  #sendBarrier(link: Link, inbox: string): void {
    if (link.state !== "telling") return;
    link.state = "switching";
    link.timer = this.#startTimer(this.#barrierMs, () => {
      // After a stall timers go before what the sockets hold: the other end's word may be there already.
      link.timer = this.#startTimer(1, () => link.close());
    });
    if (!this.#under.publish(inbox, EMPTY)) link.close();
  }

  #open(link: Link): void {
    if (link.state !== "switching") return;
    link.timer?.stop();
    link.state = "up";
    for (const { message } of link.waiting) link.tell(message);
    link.waiting = [];
  }

  #onClosed(link: Link): void {
    if (link.state === "closed") return;
    const { waiting } = link;
    link.state = "closed";
    link.onClosed();
    link.timer?.stop();
    link.barrier?.stop();
    this.#links.delete(link);
    this.#endedIds.push(link.end.id);
    if (this.#endedIds.length > ENDED_KEPT) this.#ids.delete(this.#endedIds.shift()!);
    for (const interest of link.interests) this.#interests.remove(interest.pattern, interest);
    // The barrier did not come back, so these messages have taken no route yet.
    for (const { message, isExclusive } of waiting) if (isExclusive) this.#publishUnder(message);
  }

  #publishUnder({ subject, payload, reply, headers }: Waiting["message"]): void {
    this.#under.publish(subject, payload, {
      ...(reply !== undefined && { reply }),
      ...(headers !== undefined && { headers }),
    });
  }
}

interface Interest {
  readonly pattern: string;
  readonly queue: string | undefined;
  readonly isExclusive: boolean;
}

const toldOf = (kind: "interest" | "no-interest", { pattern, isExclusive }: Interest): LinkMessage => ({
  kind,
  pattern,
  exclusive: isExclusive,
});

const isNamed = (carriers: string, id: string): boolean => carriers !== "" && carriers.split(",").includes(id);

const EMPTY = new Uint8Array(0);
const NOBODY = { Status: "503" };
