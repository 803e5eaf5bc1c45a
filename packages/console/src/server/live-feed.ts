/**
 * The page's live feed as server-sent events.
 *
 *   LF1. No page, no work: the gateway subscribes on the bus, and makes rows, only while a page is open.
 *   LF2. Bounded (T7): at most `FEEDS_MAX` pages; all get the same bytes, four times a second at most and only changes;
 *        a slow page misses the events beyond its backlog.
 *   LF3. The history of 64 models is 2.4 MB, 50 ms of work: it is made and sent a model at a time, since the gateway
 *        serves requests on the same thread, and pages that open within a second share it.
 *   LF4. A page whose key is revoked or has ended is closed within `RIGHTS_MS`, also while it is told nothing.
 */
import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { FeedBatches, FeedEvents } from "../index.ts";
import { TuttiError } from "@tutti/protocol";

export const FEEDS_MAX = 16;
/** Bytes that may wait for one page; beyond, it misses events until it has read. */
export const FEED_BACKLOG_MAX = 1_048_576;
const TICK_MS = 250;
const RIGHTS_MS = 1_000;
/** A history that is older is made anew. */
const HISTORY_SHARED_MS = 1_000;
/** Ticks until a keep-alive comment, by which proxies and the page know that the connection lives. */
const SILENCE_MS_TICKS = 40;

export interface FeedPorts {
  /** Starts the subscriptions. @returns an object that stops them */
  readonly open: () => { stop(): void };
  readonly hello: () => FeedEvents["hello"];
  readonly history: () => FeedEvents["history"];
  readonly state: () => FeedEvents["state"];
  readonly refusals: () => FeedEvents["refusals"];
  /** Undefined where there is none yet. */
  readonly plan: () => FeedEvents["plan"] | undefined;
  /** Batches that ended since the last call; undefined: none. */
  readonly batches: () => FeedBatches | undefined;
}

/** Rejects where the client's key is not good any more. */
type MayRead = () => Promise<void>;

export class LiveFeed {
  readonly #ports: FeedPorts;
  /** All that are open, each with the check whether its client may still read. */
  readonly #pages = new Map<ServerResponse, MayRead>();
  /** Those that have the whole, and get what changes. */
  readonly #followers = new Set<ServerResponse>();
  #history: { readonly madeAt: number; readonly events: Promise<readonly string[]> } | undefined;
  readonly #pending: string[] = [];
  /** The last events by name: unchanged ones are not sent again. */
  readonly #last = new Map<string, string>();
  #listening: { stop(): void } | undefined;
  #timers: readonly NodeJS.Timeout[] = [];
  #quiet = 0;
  #missed = 0;

  constructor(ports: FeedPorts) {
    this.#ports = ports;
  }

  get size(): number {
    return this.#pages.size;
  }
  /** Events that slow pages missed. */
  get missed(): number {
    return this.#missed;
  }

  /**
   * @param mayRead - asked again while the page is open
   * @returns when the page has got the whole, or has gone
   * @throws {TuttiError} OVERLOADED: too many pages are open
   */
  join(response: ServerResponse, mayRead: MayRead): Promise<void> {
    if (this.#pages.size >= FEEDS_MAX)
      throw new TuttiError("TUTTI_OVERLOADED", `${FEEDS_MAX} pages are open on this gateway already (FEEDS_MAX)`, {
        retryAfterMs: 5_000,
      });
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "x-accel-buffering": "no",
    });
    this.#pages.set(response, mayRead);
    response.once("close", () => this.#leave(response));
    if (this.#listening === undefined) this.#begin();
    response.write(`retry: 1000\n${eventText("hello", this.#ports.hello())}`);
    return this.#sendWhole(response);
  }

  async #sendWhole(response: ServerResponse): Promise<void> {
    const isThere = (): boolean => this.#pages.has(response) && !response.writableEnded;
    for (const event of await this.#pastEvents()) {
      if (!isThere()) return;
      response.write(event);
      if (response.writableLength > FEED_BACKLOG_MAX) await drained(response);
      else await nextTurn();
    }
    if (!isThere()) return;
    const { refusals, plan } = this.#ports;
    response.write(this.#last.get("state") ?? eventText("state", this.#state()));
    response.write(eventText("refusals", refusals()));
    const known = plan();
    if (known !== undefined) response.write(eventText("plan", known));
    this.#followers.add(response);
  }

  #pastEvents(): Promise<readonly string[]> {
    const now = performance.now();
    if (this.#history === undefined || now - this.#history.madeAt > HISTORY_SHARED_MS)
      this.#history = { madeAt: now, events: eventsOf(this.#ports.history()) };
    return this.#history.events;
  }

  /** Queues an event for the next tick. */
  tell<Name extends keyof FeedEvents>(name: Name, value: FeedEvents[Name]): void {
    if (this.#pages.size > 0 && this.#pending.length < PENDING) this.#pending.push(eventText(name, value));
  }

  close(): void {
    for (const page of this.#pages.keys()) page.end();
    this.#end();
  }

  /** Sends the due events; tests call it directly. */
  tick(): void {
    const { plan, batches } = this.#ports;
    this.#offer("state", this.#state());
    const known = plan();
    if (known !== undefined) this.#offer("plan", known);
    const ended = batches();
    if (ended !== undefined) this.#pending.push(eventText("batches", ended));
    let text = this.#pending.join("");
    this.#pending.length = 0;
    if (text === "" && ++this.#quiet < SILENCE_MS_TICKS) return;
    this.#quiet = 0;
    if (text === "") text = ": still here\n\n";
    for (const page of this.#followers) {
      if (page.writableLength > FEED_BACKLOG_MAX) this.#missed++;
      else page.write(text);
    }
  }

  /** Closes the pages whose clients may not read any more; tests call it directly. */
  checkRights(): void {
    for (const [page, mayRead] of this.#pages) mayRead().catch(() => page.destroy());
  }

  #state(): FeedEvents["state"] {
    return this.#ports.state();
  }

  /** Queues the event if it differs from the last one in more than the time. */
  #offer(name: "state" | "plan", value: FeedEvents["state"] | FeedEvents["plan"]): void {
    const same = JSON.stringify(essenceOf(value));
    if (this.#last.get(`${name} told`) === same) return;
    this.#last.set(`${name} told`, same);
    const text = eventText(name, value as never);
    this.#last.set(name, text);
    this.#pending.push(text);
  }

  #begin(): void {
    this.#listening = this.#ports.open();
    this.#timers = [
      setInterval(() => this.tick(), TICK_MS).unref(),
      setInterval(() => this.checkRights(), RIGHTS_MS).unref(),
    ];
  }

  #leave(response: ServerResponse): void {
    this.#pages.delete(response);
    this.#followers.delete(response);
    if (this.#pages.size === 0) this.#end();
  }

  #end(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#listening?.stop();
    this.#listening = undefined;
    this.#history = undefined;
    this.#pending.length = 0;
    this.#last.clear();
  }
}

/** Resolves when the page has read what waits for it, or has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}

async function eventsOf({ at, models }: FeedEvents["history"]): Promise<readonly string[]> {
  const events = [eventText("history", { at, models: [] })];
  for (const model of models) {
    events.push(eventText("historyModel", model));
    await nextTurn();
  }
  return events;
}

/** Removes values that change although nothing happens: ages are rounded, so times derived from them jitter. */
function essenceOf(value: FeedEvents["state"] | FeedEvents["plan"]): object {
  if ("at" in value) return { ...value, at: 0 };
  const seen = value.seenAt === null ? null : Math.floor(value.seenAt / 5_000);
  return { ...value, madeAt: 0, seenAt: seen, reasons: value.reasons.map(({ about, text }) => [about, text]) };
}

/** Largest number of events that wait for a tick: refusals and steps of operations. */
const PENDING = 64;

/** JSON has no line breaks of its own, so an event is one line. */
const eventText = <Name extends keyof FeedEvents>(name: Name, value: FeedEvents[Name]): string =>
  `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
