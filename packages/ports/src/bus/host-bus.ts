/**
 * HostBus: one connection shared by all actors of a process. Messages between them never leave the process, messages to
 * processes of the same host travel over links, and everything else over the connection.
 *
 *   HOST-1. Messages of one actor to one subject reach another in the order in which they were sent, whichever route
 *           they take: a link is used only once everything that the connection carried before has arrived.
 *   HOST-2. A message reaches each subscription at most once. The connection does not echo, and a broadcast names the
 *           links that also carry it, so that their other ends drop the connection's copy.
 *   HOST-3. An exclusive subscription is the only one on its subject: what it gets here or over a link is not
 *           published. A queue group that has a member here takes what is published here.
 *   HOST-4. A message to oneself takes the connection: it comes back after everything the server had for us.
 */
import { ActorBus } from "./actor-bus.ts";
import type { Bus, Delivery, DeliverySubscription, PublishOptions } from "./bus.ts";
import { InterestTable } from "./interest-table.ts";
import { BARRIER_MS, type LinkEnd, LinkRoutes, type LinkSwitch } from "./link-routes.ts";
import { LINKED_HEADER } from "./linked-header.ts";
import { copied, deliveryOf, headerBytesOf } from "./local-delivery.ts";
import { isHeader } from "./subject.ts";

/** One actor's subscription. */
export interface LocalInterest {
  readonly bus: ActorBus;
  readonly pattern: string;
  readonly queue: string | undefined;
  readonly isExclusive: boolean;
  readonly onDelivery: (delivery: Delivery) => void;
  isLive: boolean;
}

interface Queued {
  readonly to: LocalInterest;
  readonly delivery: Delivery;
}

/** Subscriptions of several actors to one pattern share one of the connection. */
interface Shared {
  readonly members: Set<LocalInterest>;
  readonly subscription: DeliverySubscription;
}

export interface HostBusOptions {
  /** The connection. It doesn't echo: it receives nothing that it publishes itself. */
  readonly under: Bus;
  /** Makes the subject for a link's barrier (LINK-2), a new one for each link. Default: an inbox. */
  readonly barrierSubject?: () => string;
  /** How long messages wait for a link's barrier, ms. Default: 100. */
  readonly barrierMs?: number;
  /** Runs a callback at the end of this turn, before any other event. Default: a microtask. */
  readonly later?: (run: () => void) => void;
  /** Starts a timer for time-outs of requests and links. Default: setTimeout. */
  readonly startTimer?: (delayMs: number, run: () => void) => { stop(): void };
}

export class HostBus {
  readonly under: Bus;
  readonly later: (run: () => void) => void;
  readonly startTimer: (delayMs: number, run: () => void) => { stop(): void };
  readonly interests = new InterestTable<LocalInterest>();
  readonly links: LinkRoutes;
  readonly #startedAt = new Date();
  readonly #shared = new Map<string, Shared>();
  #queue: Queued[] = [];
  /** Round-robin counter over the members of queue groups. */
  #turn = 0;
  #isDraining = false;

  constructor(options: HostBusOptions) {
    const { under, later = queueMicrotask, startTimer = startTimeout } = options;
    this.under = under;
    this.later = later;
    this.startTimer = startTimer;
    this.links = new LinkRoutes({
      under,
      startTimer,
      barrierMs: options.barrierMs ?? BARRIER_MS,
      barrierSubject: options.barrierSubject ?? (() => under.newInbox()),
      arrive: (subject, delivery) => this.#arrive(subject, delivery),
    });
  }

  /** Creates a bus for one more actor of this process. */
  actor(): Bus {
    return new ActorBus(this, this.#startedAt);
  }

  /** Routes messages for the process at the other end over this link from now on. @returns a switch that ends it */
  link(end: LinkEnd, onClosed?: () => void): LinkSwitch {
    return this.links.add(end, this.interests.all(), onClosed);
  }

  close(done: () => void): void {
    this.links.close();
    this.under.close(done);
  }

  /** @returns whether anybody could have received it */
  publish(from: ActorBus, subject: string, payload: Uint8Array, options: PublishOptions | undefined): boolean {
    if (!this.#mayTravel(from, subject, payload, options)) return false;
    const heardHere = this.#publishHere(from, subject, payload, options);
    if (heardHere === "exclusively") return true;
    // A subscriber here now owns the payload, so the link must copy it.
    const isShared = heardHere === "too" && options?.owned === true;
    const linked = this.links.publish(subject, payload, isShared ? { ...options, owned: false } : options);
    if (linked === "exclusively") return true;
    const carriers = linked === "nobody" ? undefined : linked;
    const outgoing =
      carriers === undefined ? options : { ...options, headers: { ...options?.headers, [LINKED_HEADER]: carriers } };
    const sent = this.under.publish(subject, payload, outgoing);
    return sent || heardHere === "too" || carriers !== undefined;
  }

  /** @returns false if no link's other end hears it exclusively, or somebody here does too: then nothing is sent */
  publishNear(subject: string, segments: readonly Uint8Array[]): boolean {
    let byteLength = 0;
    for (const segment of segments) byteLength += segment.byteLength;
    if (byteLength > this.under.payloadMax || this.interests.match(subject).length > 0) return false;
    return this.links.publishSegments(subject, segments, byteLength);
  }

  /** Checks a message before routing, so that every route refuses the same ones. */
  #mayTravel(from: ActorBus, subject: string, payload: Uint8Array, options: PublishOptions | undefined): boolean {
    if (!isPublishable(subject) || (options?.reply !== undefined && !isPublishable(options.reply))) {
      from.tell({ kind: "error", text: `${subject} cannot be published to, or its reply subject cannot` });
      return false;
    }
    const headers = options?.headers;
    if (headers === undefined) return payload.length <= this.under.payloadMax;
    if (!areHeaders(headers)) {
      from.tell({ kind: "error", text: `a header for ${subject} has a line break, or a name that is none` });
      return false;
    }
    return payload.length + headerBytesOf(headers) <= this.under.payloadMax;
  }

  /** True if a subscriber here or at the end of a link hears it. The server's "no responders" is then to be ignored. */
  hears(subject: string): boolean {
    return this.interests.match(subject).length > 0 || this.links.hears(subject);
  }

  #publishHere(
    from: ActorBus,
    subject: string,
    payload: Uint8Array,
    options: PublishOptions | undefined,
  ): "exclusively" | "too" | "nobody" {
    const matching = this.interests.match(subject);
    if (matching.length === 0) return "nobody";
    const mustCopy = options?.owned !== true || matching.length > 1;
    let groups: Map<string, LocalInterest[]> | undefined;
    let isExclusive = false;
    for (const interest of matching) {
      isExclusive ||= interest.isExclusive;
      if (interest.queue !== undefined) {
        groups ??= new Map();
        const members = groups.get(interest.queue);
        if (members === undefined) groups.set(interest.queue, [interest]);
        else members.push(interest);
      } else if (interest.bus === from && interest.isExclusive) this.#roundTrip(interest, subject, payload, options);
      else this.#enqueue(interest, deliveryOf(subject, payload, options, mustCopy));
    }
    if (groups === undefined) return isExclusive ? "exclusively" : "too";
    for (const members of groups.values())
      this.#enqueue(members[this.#turn++ % members.length]!, deliveryOf(subject, payload, options, mustCopy));
    return "exclusively";
  }

  /** Delivers a message to oneself after a round trip over the connection (HOST-4). */
  #roundTrip(to: LocalInterest, subject: string, payload: Uint8Array, options: PublishOptions | undefined): void {
    const delivery = deliveryOf(subject, payload, options, true);
    this.under.flush((reached) => {
      if (reached) this.#enqueue(to, delivery);
    });
  }

  subscribe(interest: LocalInterest): DeliverySubscription {
    const { pattern, queue } = interest;
    this.interests.add(pattern, interest);
    this.links.interestBegins(interest);
    const key = queue === undefined ? pattern : undefined;
    const shared = this.#join(key, interest);
    let left = false;
    const leave = (): boolean => {
      if (left) return false;
      left = true;
      this.interests.remove(pattern, interest);
      this.links.interestEnds(interest);
      shared.members.delete(interest);
      if (shared.members.size > 0) return false;
      if (key !== undefined && this.#shared.get(key) === shared) this.#shared.delete(key);
      return true;
    };
    return {
      stop: () => {
        interest.isLive = false;
        if (leave()) shared.subscription.stop();
      },
      drain: (done) => {
        const isLast = !left && shared.members.size === 1;
        const finish = (): void => {
          leave();
          this.afterQueue(() => {
            interest.isLive = false;
            interest.bus.perform(done);
          });
        };
        // It receives nothing new from here, but still what the server has already sent.
        this.interests.remove(pattern, interest);
        this.links.interestEnds(interest);
        if (isLast) shared.subscription.drain(finish);
        else if (this.under.connected && !left) this.under.flush(finish);
        else this.later(finish);
      },
    };
  }

  #join(key: string | undefined, interest: LocalInterest): Shared {
    const known = key === undefined ? undefined : this.#shared.get(key);
    if (known !== undefined) {
      known.members.add(interest);
      return known;
    }
    const members = new Set([interest]);
    const options = interest.queue === undefined ? {} : { queue: interest.queue };
    const subscription = this.under.subscribe(
      interest.pattern,
      (delivery) => {
        if (interest.queue === undefined && this.links.carried(delivery)) return;
        let isFirst = true;
        for (const member of members) {
          member.bus.deliver(member, isFirst ? delivery : copied(delivery));
          isFirst = false;
        }
      },
      options,
    );
    const shared = { members, subscription };
    if (key !== undefined) this.#shared.set(key, shared);
    return shared;
  }

  /** Delivers a message that came over a link. */
  #arrive(subject: string, delivery: Delivery): boolean {
    const matching = this.interests.match(subject);
    let isHeard = false;
    for (const interest of matching) {
      if (interest.queue !== undefined) continue;
      interest.bus.deliver(interest, isHeard ? copied(delivery) : delivery);
      isHeard = true;
    }
    return isHeard;
  }

  #enqueue(to: LocalInterest, delivery: Delivery): void {
    this.#queue.push({ to, delivery });
    if (this.#isDraining) return;
    this.#isDraining = true;
    this.later(this.#drain);
  }

  readonly #drain = (): void => {
    // Messages that handlers publish join the end of the queue, so messages are delivered in the order in which they
    // were sent.
    for (let i = 0; i < this.#queue.length; i++) {
      const { to, delivery } = this.#queue[i]!;
      to.bus.deliver(to, delivery);
    }
    this.#queue = [];
    this.#isDraining = false;
  };

  /** Runs a callback when everything that is queued now has been delivered. */
  afterQueue(run: () => void): void {
    this.later(() => {
      if (this.#isDraining) this.afterQueue(run);
      else run();
    });
  }
}

function startTimeout(delayMs: number, run: () => void): { stop(): void } {
  const timer = setTimeout(run, delayMs);
  return { stop: () => clearTimeout(timer) };
}

const NOT_PUBLISHABLE = /[\u0000-\u0020\u007f]/;

/** True for a subject that isn't empty and can't end a line of the protocol; the connection checks the rest. */
const isPublishable = (subject: string): boolean => subject !== "" && !NOT_PUBLISHABLE.test(subject);

function areHeaders(headers: Readonly<Record<string, string>>): boolean {
  for (const name in headers) if (!isHeader(name, headers[name]!)) return false;
  return true;
}
