import { Prng } from "@tutti/units";
import type { Delivery, PublishOptions } from "./bus.ts";
import { InMemoryBus, type InMemoryBusOptions, type Interest } from "./in-memory-bus.ts";
import { isLiteral, matches } from "./subject.ts";

/** One message on its way from one connection to another. */
export interface Hop {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly bytes: number;
}

export interface InMemoryNetworkOptions {
  /**
   * Carries one message over: calls `run` now or later, twice, or never. A simulator delays, repeats, drops and
   * reorders here. It returns false if it will never call `run`; draining a subscription waits for all other messages.
   * Default: the microtask queue, in order.
   */
  readonly deliver?: (run: () => void, hop: Hop) => unknown;
  /**
   * Runs what concerns only one connection (statuses, failures), soon and in order; never dropped. Default: the
   * microtask queue.
   */
  readonly later?: (run: () => void) => void;
  /** Starts a timer for time-outs of requests. Default: setTimeout. */
  readonly startTimer?: (delayMs: number, run: () => void) => { stop(): void };
  /** Chooses a member of a queue group among `count`. Default: a seeded generator. */
  readonly choose?: (count: number) => number;
  /** Largest message, bytes. Default: 1 MiB, as a NATS server's. */
  readonly payloadMax?: number;
  /** Start time of every service, as STATS reports it. */
  readonly startedAt?: Date;
}

interface Route {
  readonly plain: readonly Interest[];
  readonly groups: readonly (readonly Interest[])[];
}

/** Most routes that are cached; the cache is emptied when it is full or when any subscription changes. */
const ROUTES_MAX = 10_000;
const EMPTY: Readonly<Record<string, string>> = {};

/** A NATS server in memory: connections, subjects, queue groups, and 503 for requests without responders. */
export class InMemoryNetwork {
  readonly payloadMax: number;
  readonly startedAt: Date;
  readonly later: (run: () => void) => void;
  readonly startTimer: (delayMs: number, run: () => void) => { stop(): void };
  readonly #deliver: (run: () => void, hop: Hop) => unknown;
  readonly #choose: (count: number) => number;
  readonly #literal = new Map<string, Set<Interest>>();
  readonly #wild = new Set<Interest>();
  readonly #routes = new Map<string, Route>();

  constructor(options: InMemoryNetworkOptions = {}) {
    const prng = new Prng(1);
    this.#deliver = options.deliver ?? ((run) => queueMicrotask(run));
    this.later = options.later ?? ((run) => queueMicrotask(run));
    this.startTimer = options.startTimer ?? startTimeout;
    this.#choose = options.choose ?? ((count) => prng.nextInt(count));
    this.payloadMax = options.payloadMax ?? 1_048_576;
    this.startedAt = options.startedAt ?? new Date(0);
  }

  connect(options: InMemoryBusOptions): InMemoryBus {
    return new InMemoryBus(this, options);
  }

  add(interest: Interest): void {
    if (!isLiteral(interest.pattern)) this.#wild.add(interest);
    else {
      const peers = this.#literal.get(interest.pattern);
      if (peers === undefined) this.#literal.set(interest.pattern, new Set([interest]));
      else peers.add(interest);
    }
    this.interestChanged();
  }

  remove(interest: Interest): void {
    interest.live = false;
    this.#unlist(interest);
    this.#tellDrained(interest);
  }

  /** Ends a subscription after draining: it gets no new messages, but those on their way still arrive. */
  drain(interest: Interest, done: () => void): void {
    interest.drained.push(done);
    this.#unlist(interest);
    if (interest.onTheWay === 0 || !interest.live) this.#tellDrained(interest);
  }

  #unlist(interest: Interest): void {
    this.#wild.delete(interest);
    const peers = this.#literal.get(interest.pattern);
    if (peers?.delete(interest) === true && peers.size === 0) this.#literal.delete(interest.pattern);
    this.interestChanged();
  }

  #tellDrained(interest: Interest): void {
    for (const done of interest.drained.splice(0)) this.later(done);
  }

  /** Removes everything that a closed connection had. */
  forget(bus: InMemoryBus): void {
    const all = [...this.#wild, ...[...this.#literal.values()].flatMap((peers) => [...peers])];
    for (const interest of all) if (interest.bus === bus) this.remove(interest);
  }

  interestChanged(): void {
    this.#routes.clear();
  }

  /** Sends a message to each current subscriber. The payload is copied for each, as separate sockets would. */
  route(from: InMemoryBus, subject: string, payload: Uint8Array, options: PublishOptions): void {
    const route = this.#routeOf(subject);
    const { plain, groups } = from.noEcho ? withoutEcho(route, from) : route;
    for (const interest of plain) this.#carry(from, interest, subject, payload, options);
    for (const members of groups) {
      const chosen = members[this.#choose(members.length)];
      if (chosen !== undefined) this.#carry(from, chosen, subject, payload, options);
    }
    if (plain.length + groups.length === 0 && options.reply !== undefined) this.#tellNobody(from, options.reply);
  }

  /**
   * Answers 503 to a request without responders. It comes from the server, so a connection without echo gets it too.
   */
  #tellNobody(from: InMemoryBus, reply: string): void {
    const nothing = new Uint8Array(0);
    for (const interest of this.#routeOf(reply).plain)
      this.#carry(from, interest, reply, nothing, { headers: { Status: "503" } });
  }

  #carry(from: InMemoryBus, to: Interest, subject: string, payload: Uint8Array, options: PublishOptions): void {
    const headers = options.headers ?? EMPTY;
    const delivery: Delivery = {
      subject,
      payload: new Uint8Array(payload), // Buffer.slice would share it
      reply: options.reply,
      headerBytes: headerBytesOf(headers),
      header: (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined),
    };
    const message = from.published;
    to.onTheWay++;
    let arrived = false;
    const arrive = (): void => {
      if (arrived) return;
      arrived = true;
      if (--to.onTheWay === 0) this.#tellDrained(to);
    };
    const isCarried = this.#deliver(
      () => {
        if (to.live && to.bus.isReached && !from.hasLost(message)) to.bus.perform(() => to.onDelivery(delivery));
        arrive();
      },
      { from: from.name, to: to.bus.name, subject, bytes: payload.length },
    );
    if (isCarried === false) arrive();
  }

  #routeOf(subject: string): Route {
    const known = this.#routes.get(subject);
    if (known !== undefined) return known;
    const plain: Interest[] = [];
    const groups = new Map<string, Interest[]>();
    const take = (interest: Interest) => {
      if (!interest.bus.isReached) return;
      if (interest.queue === undefined) plain.push(interest);
      else {
        const members = groups.get(interest.queue);
        if (members === undefined) groups.set(interest.queue, [interest]);
        else members.push(interest);
      }
    };
    this.#literal.get(subject)?.forEach(take);
    for (const interest of this.#wild) if (matches(interest.pattern, subject)) take(interest);
    const route = { plain, groups: [...groups.values()] };
    if (this.#routes.size >= ROUTES_MAX) this.#routes.clear();
    this.#routes.set(subject, route);
    return route;
  }
}

function withoutEcho({ plain, groups }: Route, from: InMemoryBus): Route {
  return {
    plain: plain.filter(({ bus }) => bus !== from),
    groups: groups.map((members) => members.filter(({ bus }) => bus !== from)).filter(({ length }) => length > 0),
  };
}

/** Bytes of the headers as a NATS server counts them: the version line, each header's line, and an empty one. */
function headerBytesOf(headers: Readonly<Record<string, string>>): number {
  const names = Object.keys(headers);
  if (names.length === 0) return 0;
  return names.reduce((bytes, name) => bytes + name.length + headers[name]!.length + 4, 12);
}

function startTimeout(delayMs: number, run: () => void): { stop(): void } {
  const timer = setTimeout(run, delayMs);
  return { stop: () => clearTimeout(timer) };
}
