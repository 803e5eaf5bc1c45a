import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import { BUCKET, RankerLease, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger, Tracer } from "@tutti/ports/telemetry";
import { type ActorKey, ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";
import { readStored, writeStored } from "@tutti/wire";
import type { Watched } from "./leader-failure-detector.ts";

export interface LeaseHolderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly self: ActorKey;
  readonly subCluster: string;
  /** How often a takeover that is due and did not succeed is tried again. */
  readonly retryEvery: Micros;
  /**
   * Whether we are the spare that takes the lease at once. The others leave it the processor, and try 20 ms later if
   * the lease is still free by then. Default: always.
   */
  readonly isFirst?: () => boolean;
  /** Called when the store is asked for the lease of the leader with that epoch (0: there is no leader). */
  readonly onAsk?: (epoch: number) => void;
  /**
   * LEASE-4: calls `prepared` once everything is known that a successor of the leader with that epoch needs. Default:
   * at once.
   */
  readonly prepare?: (epoch: number, prepared: () => void) => void;
  readonly onLead: (epoch: number) => void;
  readonly onDeposed: (epoch: number) => void;
}

/**
 * Reason to suspect the leader. Lost: it said goodbye, or the registry removed it. Gone: its subject has no responder.
 * Hangs: it leaves questions unanswered. Yields: it asks for a successor.
 */
export type Suspicion = "lost" | "gone" | "hangs" | "yields";

const SAID: Readonly<Record<Suspicion, string>> = {
  lost: "the leader is lost",
  gone: "the leader is gone",
  hangs: "the leader hangs",
  yields: "the leader yields",
};

/**
 * Pause after the store failed, or reported a conflict with a winner that we have not heard of yet. Spares that are not
 * the first pause for as long before they ask.
 */
const PAUSE = millis(20);
/**
 * Longest preparation of a successor, and how long the other spares leave the lease to it. A leader that yields grants
 * for 100 ms at most.
 */
const PREPARES_WITHIN = millis(20);
const LEFT_TO_FIRST = millis(50);
/** Delay of log lines. A takeover is usually over by then. */
const SAID_AFTER = millis(20);
/** A revision that no store reaches. */
const NO_REVISION = Number.MAX_SAFE_INTEGER;

/**
 * Leadership of one sub-cluster, taken by compare-and-set, so that at most one spare wins. The revision is the epoch,
 * which fences earlier leaders (T5). A running leader does not need the store: only the success of another ranker
 * deposes it.
 *
 *   LEASE-1. A suspected leader stays suspected until it is heard again or another leads: a takeover that the store
 *            refused is tried again.
 *   LEASE-2. The holder of the lease in the store leads, even if the answer to its own write was lost.
 *   LEASE-3. An unreadable lease has no holder.
 *   LEASE-4. The successor of a leader that yields is in no hurry, since that one goes on granting: it asks for the
 *            lease when it could grant at once, or after PREPARES_WITHIN.
 */
export class LeaseHolder {
  readonly #options: LeaseHolderOptions;
  readonly #key: string;
  #holder: ActorKey | 0 = 0;
  #revision = 0;
  /** The revision whose holder is suspected. */
  #suspected = -1;
  /** The revision whose holder yields, while we prepare to follow it. */
  #preparing = -1;
  #suspicion: { readonly at: Instant; readonly reason: Suspicion } | undefined;
  #epoch = 0;
  #taking = false;
  #mayTakeAt: Instant = ALWAYS;
  #isOpen = false;
  #closed = false;
  #retrying: Stop | undefined;
  readonly #waiting: Alarm;
  #watch: { stop(): void } | undefined;

  constructor(options: LeaseHolderOptions) {
    this.#options = options;
    this.#waiting = options.clock.alarm(() => this.#takeIfDue());
    this.#key = leaseKeys.ranker(options.subCluster);
  }

  /** 0 while a spare. */
  get epoch(): number {
    return this.#epoch;
  }

  /** The leader, if it is another ranker. */
  get leader(): Watched | undefined {
    return this.#holder === 0 || this.#holder === this.#options.self
      ? undefined
      : { key: this.#holder, epoch: this.#revision };
  }

  open(ready: () => void): void {
    const { store, clock, log, retryEvery } = this.#options;
    this.#watch = store.watch(BUCKET.leases, this.#key, {
      onEntry: (entry) => this.#onEntry(entry.key, entry.value, entry.revision),
      onDelete: (key, revision) => this.#onEntry(key, undefined, revision),
      onReady: () => {
        if (this.#isOpen) return;
        this.#isOpen = true;
        this.#takeIfDue();
        this.#retrying = clock.every(retryEvery, () => this.#takeIfDue());
        ready();
      },
      onFailure: (failure) => log.warn({ failure: failure.failure }, "watching the lease failed; it is tried again"),
    });
  }

  /** Suspects the leader: it said goodbye, its connection is gone, it hangs, it yields, or it is silent too long. */
  suspect(holder: ActorKey, reason: Suspicion): void {
    if (holder !== this.#holder || holder === this.#options.self) return;
    if (this.#suspected === this.#revision) {
      if (reason !== "yields") this.#prepared(this.#revision); // It grants nothing more.
      return;
    }
    this.#suspected = this.#revision;
    this.#suspicion = { at: this.#options.clock.now(), reason };
    if (this.#options.isFirst?.() === false) this.#waitFor(reason === "yields" ? LEFT_TO_FIRST : PAUSE);
    else if (reason === "yields") this.#prepare();
    const said = { reason, epoch: this.#revision };
    this.#takeIfDue();
    this.#say((log) => {
      if (reason === "yields") log.info(said, "follows the leader, which leaves");
      else log.warn(said, "takes the leader for dead");
    });
  }

  /** LEASE-4. */
  #prepare(): void {
    const { prepare } = this.#options;
    if (prepare === undefined) return;
    const epoch = this.#revision;
    this.#preparing = epoch;
    this.#waitFor(PREPARES_WITHIN);
    prepare(epoch, () => this.#prepared(epoch));
  }
  #prepared(epoch: number): void {
    if (this.#preparing !== epoch) return;
    this.#waitNoMore();
    this.#takeIfDue();
  }

  /** Asks nothing of the store before the pause is over. */
  #waitFor(pause: Micros): void {
    this.#mayTakeAt = after(this.#options.clock.now(), pause);
    this.#waiting.set(this.#mayTakeAt);
  }
  #waitNoMore(): void {
    this.#preparing = -1;
    this.#mayTakeAt = ALWAYS;
    this.#waiting.clear();
  }
  #acquit(): void {
    this.#suspected = -1;
    if (this.#preparing >= 0) this.#waitNoMore();
  }

  /** LEASE-1. */
  heard(holder: ActorKey): void {
    if (holder === this.#holder) this.#acquit();
  }

  /**
   * Drops the suspicion. A server that ends closes one connection after the other, and reports that the leader has no
   * responder before it closes ours: a leader that is really gone is detected again.
   */
  reconnected(): void {
    this.#acquit();
  }

  /**
   * Asks for the lease in a way that the store refuses, which warms up the path of a real takeover. Cold it took up to
   * 10 ms.
   */
  warmUp(): void {
    if (this.#isOpen && this.#epoch === 0) this.#ask(NO_REVISION, () => undefined);
  }

  /**
   * An executor accepts a newer epoch than ours: we were deposed, and the store has not told us. If the store lost the
   * server that leads its stream, its watches are silent for seconds (docs/architecture.md, 8). The watch will report
   * the new leader. If there is none, the executor was misinformed, and the lease can still be taken at our revision.
   */
  outranked(epoch: number): void {
    if (this.#epoch === 0 || epoch <= this.#epoch) return;
    this.#stepDown();
    this.#suspected = this.#revision;
    this.#takeIfDue();
  }

  close(): void {
    this.#closed = true;
    this.#retrying?.stop();
    this.#waiting.clear();
    this.#watch?.stop();
  }

  #onEntry(key: string, value: Uint8Array | undefined, revision: number): void {
    if (key !== this.#key || revision <= this.#revision || this.#closed) return;
    this.#revision = revision;
    this.#acquit();
    this.#holder = this.#holderIn(value);
    if (this.#holder === this.#options.self)
      this.#lead(revision); // LEASE-2
    else if (this.#epoch > 0) this.#stepDown();
    this.#takeIfDue();
  }

  /** LEASE-3. */
  #holderIn(value: Uint8Array | undefined): ActorKey | 0 {
    if (value === undefined) return 0;
    const holder = readStored(value, RankerLease)?.ranker;
    if (holder !== undefined) return holder;
    this.#options.log.warn({ key: this.#key }, "the lease cannot be read, and counts as nobody's");
    return 0;
  }

  #takeIfDue(): void {
    const { clock, onAsk } = this.#options;
    const isDue = this.#holder === 0 || this.#suspected === this.#revision;
    if (!isDue || !this.#isOpen || this.#taking || this.#closed || this.#epoch > 0) return;
    if (clock.now() < this.#mayTakeAt) return;
    this.#preparing = -1;
    this.#taking = true;
    this.#ask(this.#revision, (result) => {
      this.#taking = false;
      if (result !== "conflict" && !isStoreFailure(result)) this.#lead(result.revision);
      else this.#waitFor(PAUSE);
    });
    onAsk?.(this.#holder === 0 ? 0 : this.#revision);
  }

  #ask(revision: number, answered: Parameters<Store["update"]>[4]): void {
    const { store, self } = this.#options;
    store.update(BUCKET.leases, this.#key, writeStored(RankerLease, { ranker: self }), revision, answered);
  }

  #lead(epoch: number): void {
    // A newer entry, which may have made us leader, is already known: this answer is late.
    if (epoch <= this.#epoch || epoch < this.#revision || this.#closed) return;
    this.#epoch = epoch;
    this.#revision = epoch;
    this.#holder = this.#options.self;
    this.#options.onLead(epoch);
    this.#say((log) => log.info({ epoch }, "leads"));
    this.#trace(epoch);
  }

  /**
   * Logs after a while. A line costs half a millisecond and wakes its readers, just when all actors wait for the next
   * grant.
   */
  #say(line: (log: Logger) => void): void {
    const { clock, log } = this.#options;
    clock.alarm(() => line(log)).set(after(clock.now(), SAID_AFTER));
  }

  /** Traces the time from the suspicion to the lease, in which requests waited for a grant. */
  #trace(epoch: number): void {
    const { tracer, clock, subCluster } = this.#options;
    const now = clock.now();
    const suspicion = this.#suspicion;
    this.#suspicion = undefined;
    if (!tracer.enabled) return;
    const attributes = { "tutti.sub_cluster": subCluster, "tutti.epoch": epoch };
    const span = tracer.start("takeover", { kind: "internal", at: suspicion?.at ?? now, attributes });
    span.event("leads", now, { reason: suspicion === undefined ? "nobody led" : SAID[suspicion.reason] });
    span.keep();
    span.end(now);
  }

  #stepDown(): void {
    const epoch = this.#epoch;
    this.#epoch = 0;
    this.#say((log) => log.warn({ epoch }, "was deposed and is a spare now"));
    this.#options.onDeposed(epoch);
  }
}
