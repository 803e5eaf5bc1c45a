import { randomBytes } from "node:crypto";
import type { Watcher } from "@tutti/ports/store";
import { AckPolicy, DeliverPolicy, type JetStreamManager } from "@nats-io/jetstream";
import { type NatsConnection as Connection, type Msg, type Subscription, nanos } from "@nats-io/transport-node";

export interface KvWatchOptions {
  readonly connection: Connection;
  readonly inboxPrefix: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly watcher: Watcher;
  /** Opens the bucket, and makes it if there is none. `afresh`: looks again even if it was there a moment ago. */
  readonly open: (afresh: boolean) => Promise<JetStreamManager>;
  /** Called with the error of a watcher that threw. */
  readonly onError: (error: unknown) => void;
}

const HEARTBEAT_MS = 2_000;
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 2_000;

/**
 * A watch on a JetStream KV bucket: a push consumer over the newest entry of each key. Every fault (a gap in the
 * sequence, two heartbeats missed, a reconnect, a lost consumer) is repaired in one way: all entries are read again,
 * and only changes are reported. The library's ordered consumer is not used, because its heartbeat of 30 s is fixed: a
 * watch would be blind for a minute after a server of a cluster died.
 *
 *   KV-1. The watcher gets each change once, in order of revision, and `ready` once; a state that was overtaken while
 *         the watch was interrupted may be left out.
 *   KV-2. The watch has caught up when it has reported every key that the stream held once the consumer stood, or else
 *         with the next heartbeat, which a server sends only when it has nothing to send. The server's own count of
 *         pending messages is not used: for an entry that is overwritten while a consumer starts, it stays wrong, or is
 *         zero before the new entry has come.
 */
export class KvWatch {
  readonly #options: KvWatchOptions;
  /** Newest reported revision of each present key. As many entries as the bucket has below the prefix. */
  readonly #known = new Map<string, number>();
  #attempt: Attempt | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryMs = RETRY_MS_MIN;
  #ready = false;
  #stopped = false;

  constructor(options: KvWatchOptions) {
    this.#options = options;
    this.restart();
  }

  /** Reads all entries again: after a reconnect, or when a change was missed. */
  restart(): void {
    if (this.#stopped) return;
    clearTimeout(this.#retry);
    this.#attempt?.stop();
    const afresh = this.#retryMs > RETRY_MS_MIN;
    const attempt = new Attempt(this.#options, {
      onMessage: (key, message, revision) => this.#onMessage(attempt, key, message, revision),
      onCaughtUp: () => this.#onCaughtUp(attempt),
      onBroken: (reason) => this.#onBroken(attempt, reason),
    });
    this.#attempt = attempt;
    void attempt.start(afresh);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retry);
    this.#attempt?.stop();
  }

  #onMessage(attempt: Attempt, key: string, message: Msg, revision: number): void {
    if (this.#attempt !== attempt || !key.startsWith(this.#options.prefix)) return;
    const operation = message.headers?.get("KV-Operation") ?? "";
    const known = this.#known.get(key);
    if (operation === "DEL" || operation === "PURGE") {
      if (!this.#known.delete(key)) return;
      this.#tell((watcher) => watcher.onDelete(key, revision));
    } else if (known !== revision) {
      this.#known.set(key, revision);
      // The data may be a view of the read buffer.
      const value = new Uint8Array(message.data);
      this.#tell((watcher) => watcher.onEntry({ key, value, revision }));
    }
  }

  #onCaughtUp(attempt: Attempt): void {
    if (this.#attempt !== attempt) return;
    this.#retryMs = RETRY_MS_MIN;
    // Remove keys that left no delete marker: purged, or the bucket itself was lost.
    for (const [key, revision] of [...this.#known]) {
      if (attempt.seen.has(key)) continue;
      this.#known.delete(key);
      this.#tell((watcher) => watcher.onDelete(key, revision));
    }
    attempt.seen.clear();
    if (this.#ready) return;
    this.#ready = true;
    this.#tell((watcher) => watcher.onReady());
  }

  #onBroken(attempt: Attempt, reason: string): void {
    if (this.#stopped || this.#attempt !== attempt) return;
    attempt.stop();
    // Reported once per outage: the watch itself keeps retrying.
    if (this.#retryMs === RETRY_MS_MIN) this.#tell((watcher) => watcher.onFailure({ failure: reason }));
    this.#retry = setTimeout(() => this.restart(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
  }

  #tell(call: (watcher: Watcher) => void): void {
    if (this.#stopped) return;
    try {
      call(this.#options.watcher);
    } catch (error) {
      this.#options.onError(error);
    }
  }
}

interface AttemptEvents {
  onMessage(key: string, message: Msg, revision: number): void;
  onCaughtUp(): void;
  onBroken(reason: string): void;
}

/** One push consumer, from its creation until it is given up. */
class Attempt {
  /** Keys that the consumer's filter matched before it caught up. */
  readonly seen = new Set<string>();
  readonly #options: KvWatchOptions;
  readonly #events: AttemptEvents;
  readonly #name = `w${randomBytes(9).toString("hex")}`;
  readonly #stream: string;
  #subscription: Subscription | undefined;
  #manager: JetStreamManager | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #silentFor = 0;
  #delivered = 0;
  /** Keys that were there when the consumer stood and have not been seen yet. */
  #awaited: Set<string> | undefined;
  #caughtUp = false;
  #over = false;

  constructor(options: KvWatchOptions, events: AttemptEvents) {
    this.#options = options;
    this.#events = events;
    this.#stream = `KV_${options.bucket}`;
  }

  async start(afresh: boolean): Promise<void> {
    const { connection, bucket, prefix } = this.#options;
    const deliverTo = `${this.#options.inboxPrefix}.${this.#name}`;
    // Wildcards stand for whole tokens; the watch compares the rest of the prefix.
    const filter = `$KV.${bucket}.${prefix.slice(0, prefix.lastIndexOf(".") + 1)}>`;
    try {
      const manager = await this.#options.open(afresh);
      if (this.#over) return;
      this.#manager = manager;
      this.#subscription = connection.subscribe(deliverTo, {
        callback: (error, message) => (error === null ? this.#receive(message) : this.#break(error.message)),
      });
      await manager.consumers.add(this.#stream, {
        name: this.#name,
        deliver_subject: deliverTo,
        filter_subject: filter,
        deliver_policy: DeliverPolicy.LastPerSubject,
        ack_policy: AckPolicy.None,
        max_deliver: 1,
        mem_storage: true,
        num_replicas: 1,
        idle_heartbeat: nanos(HEARTBEAT_MS),
        inactive_threshold: nanos(30_000),
      });
      if (this.#over) return this.#remove();
      this.#pulse = setInterval(() => this.#checkPulse(), HEARTBEAT_MS);
      const { state } = await manager.streams.info(this.#stream, { subjects_filter: filter });
      this.#awaited = new Set(Object.keys(state.subjects ?? {}).map((subject) => this.#keyOf(subject)));
      for (const key of this.seen) this.#awaited.delete(key);
      if (this.#awaited.size === 0) this.#reachEnd();
    } catch (error) {
      this.#break(error instanceof Error ? error.message : String(error));
    }
  }

  stop(): void {
    if (this.#over) return;
    this.#over = true;
    clearInterval(this.#pulse);
    this.#subscription?.unsubscribe();
    this.#remove();
  }

  #receive(message: Msg): void {
    this.#silentFor = 0;
    if (message.headers?.code === 100) {
      const last = Number(message.headers.get("Nats-Last-Consumer"));
      if (last !== this.#delivered) this.#break(`${last - this.#delivered} changes were lost on their way`);
      else if (this.#pulse !== undefined) this.#reachEnd(); // KV-2
      return;
    }
    const position = positionOf(message.reply);
    if (position === undefined) return;
    if (position.delivered !== this.#delivered + 1) return this.#break("a change was lost on its way");
    this.#delivered = position.delivered;
    const key = this.#keyOf(message.subject);
    if (!this.#caughtUp) this.seen.add(key);
    this.#events.onMessage(key, message, position.revision);
    if (this.#awaited?.delete(key) && this.#awaited.size === 0) this.#reachEnd();
  }

  /** `$KV.<bucket>.<key>` */
  #keyOf(subject: string): string {
    return subject.slice(this.#options.bucket.length + 5);
  }

  #reachEnd(): void {
    if (this.#caughtUp || this.#over) return;
    this.#caughtUp = true;
    this.#events.onCaughtUp();
  }

  #checkPulse(): void {
    if (++this.#silentFor > 2) this.#break("the server stopped sending heartbeats for the watch");
  }

  #break(reason: string): void {
    if (!this.#over) this.#events.onBroken(reason);
  }

  #remove(): void {
    // Best effort: the server forgets an inactive consumer by itself.
    if (this.#options.connection.isClosed()) return;
    this.#manager?.consumers.delete(this.#stream, this.#name).catch(() => {});
  }
}

/**
 * `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<redelivered>.<stream seq>.<consumer
 * seq>.<time>.<pending>[.<token>]`
 */
function positionOf(reply: string | undefined): { revision: number; delivered: number } | undefined {
  const tokens = reply?.split(".") ?? [];
  if (tokens[0] !== "$JS" || tokens[1] !== "ACK" || tokens.length < 9) return undefined;
  const first = tokens.length > 9 ? 7 : 5;
  return { revision: Number(tokens[first]), delivered: Number(tokens[first + 1]) };
}
