import { type Bus, type Delivery, type InMemoryBus, type ServiceInfo } from "@tutti/bus";
import type { Alarm, Clock, Stop, VirtualClock } from "@tutti/clock";
import type { Store } from "@tutti/store";
import type { DataClient, DataHandlers } from "@tutti/pull";
import { type ActorKey, type Instant, type Micros, NEVER } from "@tutti/units";

/** What a host lets others see of its process. */
export interface HostWatcher {
  /** @param isKept - it carries a reply subject, as answers do that their ingress keeps until they have left */
  onSent(host: Host, subject: string, payload: Uint8Array, taken: boolean, isKept: boolean): void;
  onReceived(host: Host, delivery: Delivery): void;
  /** Its store shows it an entry. */
  onEntry(host: Host, bucket: string, key: string, revision: number): void;
  /** Something that the process did threw: in production it would have ended. */
  onCrash(host: Host, error: unknown): void;
}

/** Timers that one process may have armed at once (T7): a few of its own, and one per accelerator and model. */
export const TIMERS_MAX = 128;

/**
 * One incarnation of one actor, as a process on a host of its own: it can be killed in mid-word, stopped (SIGSTOP) and woken with all that came meanwhile
 * before it, and its clock differs from the others'. Everything that an actor is given goes through here, so that a dead one does nothing any more.
 */
export class Host {
  readonly slot: string;
  readonly key: ActorKey;
  /** Its clock minus true time, in µs; of either sign. */
  readonly skew: number;
  readonly watcher: HostWatcher;
  alive = true;
  paused = false;
  /** True time at which it last was woken. */
  wokenAt = -Infinity;
  /** Its connection for requests and answers: whether it is away, and when it last came back, in true time. */
  bulkAway = false;
  bulkBackAt = -Infinity;
  diedAt = Infinity;
  armed = 0;
  /** What its actor answers to STATS. */
  figures: (() => Readonly<Record<string, number>>) | undefined;
  readonly #waiting: (() => void)[] = [];

  constructor(options: { slot: string; key: ActorKey; skew: number; watcher: HostWatcher }) {
    this.slot = options.slot;
    this.key = options.key;
    this.skew = options.skew;
    this.watcher = options.watcher;
  }

  get name(): string {
    return `${this.slot}#${this.key.toString(36)}`;
  }

  perform(run: () => void): void {
    if (!this.alive) return;
    if (this.paused) return void this.#waiting.push(run);
    try {
      run();
    } catch (error) {
      this.watcher.onCrash(this, error);
    }
  }
  wake(now: Instant): void {
    this.paused = false;
    this.wokenAt = now;
    while (this.#waiting.length > 0 && this.alive && !this.paused) this.perform(this.#waiting.shift()!);
  }
  end(now: Instant): void {
    this.alive = false;
    this.diedAt = now;
    this.#waiting.length = 0;
  }
}

/** The clock of one host: true time plus its skew; what is due while the process is stopped comes when it wakes, once. */
export class HostClock implements Clock {
  readonly #clock: VirtualClock;
  readonly #host: Host;

  constructor(clock: VirtualClock, host: Host) {
    this.#clock = clock;
    this.#host = host;
  }

  now(): Instant {
    return (this.#clock.now() + this.#host.skew) as Instant;
  }
  lateness(): Micros {
    return this.#clock.lateness();
  }

  alarm(fire: () => void): Alarm {
    const host = this.#host;
    let setting = 0;
    let armed = false;
    const disarm = (): void => {
      setting++;
      if (armed) host.armed--;
      armed = false;
    };
    const inner = this.#clock.alarm(() => {
      const fired = setting;
      // A stopped process may set it anew, when it wakes, before it comes to this.
      host.perform(() => {
        if (fired !== setting) return;
        disarm();
        fire();
      });
    });
    return {
      set: (at) => {
        if (!host.alive) return;
        disarm();
        if (at !== NEVER) {
          armed = true;
          host.armed++;
        }
        inner.set(at === NEVER ? NEVER : ((at - host.skew) as Instant));
      },
      clear: () => {
        disarm();
        inner.clear();
      },
    };
  }

  every(period: Micros, run: () => void): Stop {
    const host = this.#host;
    let waits = false;
    let stopped = false;
    host.armed++;
    const inner = this.#clock.every(period, () => {
      if (!host.alive) return inner.stop();
      if (waits) return;
      waits = true;
      host.perform(() => {
        waits = false;
        if (!stopped) run();
      });
    });
    return {
      stop: () => {
        if (!stopped) host.armed--;
        stopped = true;
        inner.stop();
      },
    };
  }

  endOfTurn(run: () => void): void {
    this.#clock.endOfTurn(() => this.#host.perform(run));
  }
}

/** A host's connection. */
export class HostBus implements Bus {
  readonly #inner: InMemoryBus;
  readonly #host: Host;

  constructor(inner: InMemoryBus, host: Host) {
    this.#inner = inner;
    this.#host = host;
  }

  get payloadMax(): number {
    return this.#inner.payloadMax;
  }
  get connected(): boolean {
    return this.#inner.connected;
  }
  publish: Bus["publish"] = (subject, payload, options) => {
    if (!this.#host.alive) return false;
    // Also what is lost because the connection is away: to checkers, an actor has done what it tried to do.
    this.#host.watcher.onSent(this.#host, subject, payload, this.#inner.connected, options?.reply !== undefined);
    return this.#inner.publish(subject, payload, options);
  };
  subscribe: Bus["subscribe"] = (pattern, onDelivery, options) => {
    const inner = this.#inner.subscribe(
      pattern,
      (delivery) =>
        this.#host.perform(() => {
          this.#host.watcher.onReceived(this.#host, delivery);
          onDelivery(delivery);
        }),
      options,
    );
    return { stop: () => inner.stop(), drain: (done) => inner.drain(() => this.#later(done)) };
  };
  request: Bus["request"] = (subject, payload, options, done) => {
    if (this.#host.alive) this.#inner.request(subject, payload, options, (result) => this.#later(() => done(result)));
  };
  newInbox: Bus["newInbox"] = () => this.#inner.newInbox();
  flush: Bus["flush"] = (done) => this.#inner.flush((reached) => this.#later(() => done(reached)));
  onStatus: Bus["onStatus"] = (listener) => this.#inner.onStatus((status) => this.#later(() => listener(status)));
  announce(service: ServiceInfo): { stop(): void } {
    this.#host.figures = () => service.stats();
    return { stop: () => undefined };
  }
  close: Bus["close"] = (done) => this.#inner.close(() => this.#later(done));

  #later(run: () => void): void {
    this.#host.perform(run);
  }
}

/** How a host's calls reach the store, and the store's answers the host. */
export interface StoreLink {
  /** False while the store can't be reached from here. */
  reachable(): boolean;
  /** Carries an answer or a watch's entry over, in order. */
  carry(run: () => void): void;
}

/** The store as a host sees it. A call that does not get there fails; what a watch misses it is shown later, as by a client that reconnects. */
export function hostStore(store: Store, host: Host, link: StoreLink): Store {
  const come = (run: () => void): void => link.carry(() => host.perform(run));
  const call = <T>(done: (result: T | { failure: string }) => void, perform: (answer: (result: T) => void) => void) => {
    if (!host.alive) return;
    if (link.reachable()) perform((result) => come(() => done(result)));
    else come(() => done({ failure: "the store is out of reach" }));
  };
  return {
    get: (bucket, key, done) => call(done, (answer) => store.get(bucket, key, answer)),
    put: (bucket, key, value, done) => call(done, (answer) => store.put(bucket, key, value, answer)),
    update: (bucket, key, value, revision, done) =>
      call(done, (answer) => store.update(bucket, key, value, revision, answer)),
    delete: (bucket, key, done) => call(done, (answer) => store.delete(bucket, key, answer)),
    watch: (bucket, prefix, watcher) => {
      let stopped = false;
      const show = (run: () => void): void => come(() => !stopped && run());
      const watch = store.watch(bucket, prefix, {
        onEntry: (entry) =>
          show(() => {
            host.watcher.onEntry(host, bucket, entry.key, entry.revision);
            watcher.onEntry(entry);
          }),
        onDelete: (key, revision) => show(() => watcher.onDelete(key, revision)),
        onReady: () => show(() => watcher.onReady()),
        onFailure: (failure) => show(() => watcher.onFailure(failure)),
      });
      return {
        stop: () => {
          stopped = true;
          watch.stop();
        },
      };
    },
    files: store.files,
  };
}

export function hostDataClient(inner: DataClient, host: Host, onPull: (pull: Pull) => void): DataClient {
  return {
    pull: (peer, pull, timeoutMs, done) => {
      if (!host.alive) return;
      onPull(pull);
      inner.pull(peer, pull, timeoutMs, (outcome) => host.perform(() => done(outcome)));
    },
    push: (peer, results) => host.alive && inner.push(peer, results),
    forget: (key) => inner.forget(key),
    close: (done) => inner.close(() => host.perform(done)),
  };
}
export type Pull = Parameters<DataClient["pull"]>[1];

/** Rows are copied by who carries them, so they may wait while the process is stopped. */
export function hostDataHandlers(handlers: DataHandlers, host: Host): DataHandlers {
  return {
    onPull: (pull, reply) => host.perform(() => handlers.onPull(pull, reply)),
    onResults: (results) => host.perform(() => handlers.onResults(results)),
  };
}
