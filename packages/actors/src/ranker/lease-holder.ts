import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger, Tracer } from "@tutti/ports/telemetry";
import { type ActorKey, ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { rankerIn } from "../ranker-lease.ts";
import type { Watched } from "./leader-failure-detector.ts";

export interface LeaseHolderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly self: ActorKey;
  readonly subCluster: string;
  /** How often a takeover that is due and did not succeed is looked at again. */
  readonly retryEvery: Micros;
  /**
   * Whether we are the spare that takes the lease at once; the others leave it the processor, and try 20 ms later if
   * nobody has it by then. Default: always.
   */
  readonly isFirst?: () => boolean;
  /** Called when the store is asked for the lease of the leader with that epoch (0: of nobody). */
  readonly onAsk?: (epoch: number) => void;
  /**
   * L4: calls `prepared` once all is known that a successor of the leader with that epoch should know. Default: at
   * once.
   */
  readonly prepare?: (epoch: number, prepared: () => void) => void;
  readonly onLead: (epoch: number) => void;
  readonly onDeposed: (epoch: number) => void;
}

/**
 * Lost: it said goodbye, or the directory gave it up. Gone: nobody listens where it did. Hangs: it leaves questions
 * unanswered. Yields: it asks for a successor.
 */
export type Suspicion = "lost" | "gone" | "hangs" | "yields";

const SAID: Readonly<Record<Suspicion, string>> = {
  lost: "the leader is lost",
  gone: "the leader is gone",
  hangs: "the leader hangs",
  yields: "the leader yields",
};

/**
 * A store that failed, or said that somebody was faster whom we have not heard of yet, is left alone for so long, and
 * so it is by spares that are not the first.
 */
const PAUSE = millis(20);
/**
 * A leader that yields grants for 100 ms at most. The others leave it to the first for as long as that one prepares,
 * and a little more.
 */
const PREPARES_WITHIN = millis(20);
const LEFT_TO_FIRST = millis(50);
/** A takeover is over then, as a rule. */
const SAID_AFTER = millis(20);
/** No store ever comes to it. */
const NO_REVISION = Number.MAX_SAFE_INTEGER;

/**
 * Leadership of one sub-cluster: taken by compare-and-set, so that at most one spare wins; the revision is the epoch,
 * which fences whoever led before (T5). A running leader does not need the store: only another's success deposes it.
 *
 *   L1. A leader that is suspected stays so until it is heard again or another leads: a takeover that the store refused
 *       is tried again.
 *   L2. Whoever the store says has the lease leads, also when the answer to its own writing was lost.
 *   L3. A lease that can't be read is nobody's.
 *   L4. Who follows a leader that yields is in no hurry, since that one goes on granting: it asks for the lease when it
 *       could grant at once, or after PREPARES_WITHIN.
 */
export class LeaseHolder {
  readonly #options: LeaseHolderOptions;
  readonly #key: string;
  #holder: ActorKey | 0 = 0;
  #revision = 0;
  /** The revision whose holder is suspected. */
  #suspected = -1;
  /** The revision whose holder yields, while we are not prepared to follow it. */
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

  /** Who leads, if somebody else does. */
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

  /** The leader said goodbye, its connection is gone, or it has not been heard for too long. */
  suspect(holder: ActorKey, reason: Suspicion): void {
    if (holder !== this.#holder || holder === this.#options.self) return;
    if (this.#suspected === this.#revision) {
      if (reason !== "yields") this.#prepared(this.#revision); // It goes on granting no more.
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

  /** L4. */
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

  /** Nothing is asked of the store before that. */
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

  /** L1. */
  heard(holder: ActorKey): void {
    if (holder === this.#holder) this.#acquit();
  }

  /**
   * A server that ends closes one connection after the other, and says of the leader that nobody is there before it
   * closes ours: who is gone is found out anew.
   */
  reconnected(): void {
    this.#acquit();
  }

  /**
   * Asks for the lease in a way that the store refuses, so that the first time that counts is not the first: cold it
   * took up to 10 ms.
   */
  warmUp(): void {
    if (this.#isOpen && this.#epoch === 0) this.#ask(NO_REVISION, () => undefined);
  }

  /**
   * Somebody obeys a newer epoch than ours: we were deposed, and the store has not told us. Where it lost the server
   * that leads its stream, its watches are silent for seconds (docs/architecture.md, 8). Who leads now, the watch will
   * say; or nobody does, and who was told so was told wrongly: then the lease can still be taken as we had it.
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
      this.#lead(revision); // L2
    else if (this.#epoch > 0) this.#stepDown();
    this.#takeIfDue();
  }

  /** L3. */
  #holderIn(value: Uint8Array | undefined): ActorKey | 0 {
    if (value === undefined) return 0;
    const holder = rankerIn(value);
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
    store.update(BUCKET.leases, this.#key, toJson({ ranker: self }), revision, answered);
  }

  #lead(epoch: number): void {
    // Who leads already by a newer entry has learned of this one late.
    if (epoch <= this.#epoch || epoch < this.#revision || this.#closed) return;
    this.#epoch = epoch;
    this.#revision = epoch;
    this.#holder = this.#options.self;
    this.#options.onLead(epoch);
    this.#say((log) => log.info({ epoch }, "leads"));
    this.#trace(epoch);
  }

  /** A line costs half a millisecond and wakes whoever reads it, just when everybody waits for the next grant. */
  #say(line: (log: Logger) => void): void {
    const { clock, log } = this.#options;
    clock.alarm(() => line(log)).set(after(clock.now(), SAID_AFTER));
  }

  /** From the suspicion to the lease: what requests waited for a grant meanwhile. */
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
