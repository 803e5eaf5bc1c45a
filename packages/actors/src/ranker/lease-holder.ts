import type { Bus, Subscription } from "@tutti/bus";
import { isBusFailure } from "@tutti/bus";
import type { Clock, Stop } from "@tutti/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/store";
import type { Logger } from "@tutti/telemetry";
import { type ActorKey, type Instant, type Micros, ALWAYS, after, millis } from "@tutti/units";
import { fromJson, toJson } from "@tutti/wire";

export interface LeaseHolderOptions {
  readonly bus: Bus;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly self: ActorKey;
  readonly subCluster: string;
  /** Answered by the leader alone: the server's "no responders" proves that the leader's connection is gone. */
  readonly pingSubject: string;
  readonly pingEvery: Micros;
  readonly onLead: (epoch: number) => void;
  readonly onDeposed: (epoch: number) => void;
}

/** A "no responders" whose ping left so soon after a new epoch was seen says nothing about the new leader, who may not yet have subscribed. */
const GRACE = millis(20);
const PING_TIMEOUT_MS = 250;

/**
 * Leadership of one sub-cluster: taken by compare-and-set, so that at most one spare wins; the revision is the epoch, which fences whoever led before
 * (T5). A running leader does not need the store: only another's success deposes it.
 */
export class LeaseHolder {
  readonly #options: LeaseHolderOptions;
  readonly #key: string;
  #holder: ActorKey | 0 = 0;
  #revision = 0;
  #seenAt: Instant = ALWAYS;
  #epoch = 0;
  #taking = false;
  #closed = false;
  #answering: Subscription | undefined;
  #pinging: Stop | undefined;
  #watch: { stop(): void } | undefined;

  constructor(options: LeaseHolderOptions) {
    this.#options = options;
    this.#key = leaseKeys.ranker(options.subCluster);
  }

  /** 0 while a spare. */
  get epoch(): number {
    return this.#epoch;
  }

  open(ready: () => void): void {
    const { store, clock, log, pingEvery } = this.#options;
    let first = true;
    this.#watch = store.watch(BUCKET.leases, this.#key, {
      onEntry: (entry) => this.#onEntry(entry.key, entry.value, entry.revision),
      onDelete: (key, revision) => this.#onEntry(key, undefined, revision),
      onReady: () => {
        if (!first) return;
        first = false;
        if (this.#holder === 0) this.#take();
        this.#pinging = clock.every(pingEvery, () => this.#ping());
        ready();
      },
      onFailure: (failure) => log.warn({ failure: failure.failure }, "watching the lease failed; it is tried again"),
    });
  }

  /** The leader said goodbye, or has not been heard for too long. */
  suspect(holder: ActorKey): void {
    if (holder === this.#holder && this.#epoch === 0) this.#take();
  }

  close(): void {
    this.#closed = true;
    this.#pinging?.stop();
    this.#watch?.stop();
    this.#answering?.stop();
  }

  #onEntry(key: string, value: Uint8Array | undefined, revision: number): void {
    if (key !== this.#key || revision <= this.#revision) return;
    this.#revision = revision;
    this.#seenAt = this.#options.clock.now();
    const holder = value === undefined ? undefined : (fromJson(value) as { ranker?: ActorKey }).ranker;
    this.#holder = holder ?? 0;
    if (this.#holder === this.#options.self) this.#lead(revision);
    else if (this.#epoch > 0) this.#stepDown();
    if (this.#holder === 0) this.#take();
  }

  #ping(): void {
    if (this.#epoch > 0 || this.#closed) return;
    const sentAt = this.#options.clock.now();
    this.#options.bus.request(this.#options.pingSubject, NOTHING, { timeoutMs: PING_TIMEOUT_MS }, (result) => {
      // Silence may be a busy machine; only the server's word that nobody listens is proof of death.
      if (!isBusFailure(result) || result.failure !== "no-responders") return;
      if (sentAt > after(this.#seenAt, GRACE)) this.#take();
    });
  }

  #take(): void {
    if (this.#taking || this.#closed || this.#epoch > 0) return;
    this.#taking = true;
    // Listening first: a ping that is answered by nobody after our epoch is out would depose us at once.
    this.#answering ??= this.#options.bus.subscribe(this.#options.pingSubject, (ping) => {
      if (ping.reply !== undefined && this.#epoch > 0) this.#options.bus.publish(ping.reply, NOTHING);
    });
    const value = toJson({ ranker: this.#options.self });
    this.#options.store.update(BUCKET.leases, this.#key, value, this.#revision, (result) => {
      this.#taking = false;
      if (this.#closed) return;
      if (result !== "conflict" && !isStoreFailure(result)) this.#lead(result.revision);
      else if (this.#epoch === 0) this.#stopAnswering();
    });
  }

  #lead(epoch: number): void {
    if (epoch <= this.#epoch) return;
    this.#epoch = epoch;
    this.#revision = Math.max(this.#revision, epoch);
    this.#holder = this.#options.self;
    this.#seenAt = this.#options.clock.now();
    this.#options.log.info({ epoch }, "leads");
    this.#options.onLead(epoch);
  }

  #stepDown(): void {
    const epoch = this.#epoch;
    this.#epoch = 0;
    this.#stopAnswering();
    this.#options.log.warn({ epoch }, "was deposed and is a spare now");
    this.#options.onDeposed(epoch);
  }

  #stopAnswering(): void {
    this.#answering?.stop();
    this.#answering = undefined;
  }
}

const NOTHING = new Uint8Array(0);
