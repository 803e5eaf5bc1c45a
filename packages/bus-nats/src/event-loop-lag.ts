/** Interval of the PINGs, and the delay of a PONG from which this side counts as a slow consumer. */
const PROBE_MS = 500;
export const SLOW_MS = 2_000;
/**
 * Time without a PONG, and at last without anything, while this process is awake, from which the server counts as
 * silent: less than what follows from it takes to be noticed, such as watches that miss their heartbeats.
 */
const SILENT_MS = 1_000;

export interface EventLoopLagOptions {
  readonly everyMs?: number;
  readonly slowMs?: number;
  readonly silentMs?: number;
  /** Counts what the connection has brought. */
  readonly received: () => number;
  /** Sends a PING; settles with its PONG, or when the connection breaks. */
  readonly flush: () => Promise<void>;
  readonly now?: () => number;
  /** Called once per period of lag. */
  readonly onSlow: (lagMs: number, stoodStillMs: number) => void;
  /** Called once per silence, and when it is over; not where the connection breaks instead. */
  readonly onSilent: (lagMs: number) => void;
  readonly onHeard: (lagMs: number) => void;
}

/** A time in which none of the process' timers ran. */
interface Standstill {
  readonly ms: number;
  readonly endedMs: number;
}

/**
 * Lag of this side of a connection. A PONG follows everything that the server sent before it, so its delay is the time
 * that all of that waits: in the server, in the sockets, and for our own event loop. No other signal reaches a slow
 * consumer before it is cut off. Where nothing at all comes meanwhile, the server hangs or the network is gone, and
 * this side isn't slow.
 */
export class EventLoopLag {
  readonly #options: EventLoopLagOptions;
  readonly #now: () => number;
  readonly #slowMs: number;
  readonly #silentMs: number;
  readonly #everyMs: number;
  readonly #timer: NodeJS.Timeout;
  #askedMs: number | undefined;
  #isSlow = false;
  /** Count of what had come by the last look, and when one last saw it grow. */
  #received = 0;
  #grownMs = 0;
  #isSilent = false;
  #tickedMs: number;
  #standstill: Standstill | undefined;

  constructor(options: EventLoopLagOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#slowMs = options.slowMs ?? SLOW_MS;
    this.#silentMs = options.silentMs ?? SILENT_MS;
    this.#everyMs = options.everyMs ?? PROBE_MS;
    this.#tickedMs = this.#now();
    this.#timer = setInterval(() => this.#tick(), this.#everyMs);
    this.#timer.unref();
  }

  /** Time since the PING that has no PONG yet; 0 when none is due. */
  get lagMs(): number {
    return this.#askedMs === undefined ? 0 : this.#now() - this.#askedMs;
  }

  /**
   * How long the process stood still, where that explains the present lag (at least half of it); else 0. What came
   * during a standstill waits behind it, so one that ended up to an interval before the PING counts too, or before now
   * if no PING is under way.
   */
  get stoodStillMs(): number {
    this.#noticeStandstill();
    if (this.#standstill === undefined) return 0;
    const { ms, endedMs } = this.#standstill;
    const since = this.#askedMs ?? this.#now();
    return endedMs >= since - this.#everyMs && ms >= this.lagMs / 2 ? ms : 0;
  }

  /** The server has answered nothing for so long that this was told. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    this.#noticeStandstill();
    this.#tickedMs = this.#now();
    this.#ask();
  }

  /** After a standstill a PONG may be read before the timer runs, so both look. */
  #noticeStandstill(): void {
    const endedMs = this.#now();
    const ms = endedMs - this.#tickedMs - this.#everyMs;
    if (ms >= this.#slowMs / 2) this.#standstill = { ms, endedMs };
  }

  #ask(): void {
    if (this.#askedMs !== undefined) {
      this.#lookForSilence();
      return this.#look();
    }
    this.#askedMs = this.#now();
    this.#lookForMore();
    const answered = (): void => {
      this.#look();
      if (this.#isSilent) this.#options.onHeard(this.lagMs);
      if (this.lagMs < this.#slowMs / 2) this.#isSlow = false;
      this.#isSilent = false;
      this.#askedMs = undefined;
    };
    const broken = (): void => {
      this.#askedMs = undefined;
      this.#isSlow = false;
      this.#isSilent = false;
    };
    this.#options.flush().then(answered, broken);
  }

  #lookForMore(): void {
    const received = this.#options.received();
    if (received !== this.#received) this.#grownMs = this.#now();
    this.#received = received;
  }
  /** Only the last interval counts: a server may hang after it has sent more, but no PONG. */
  #lookForSilence(): void {
    this.#lookForMore();
    if (this.#isSilent || this.lagMs < this.#silentMs || this.stoodStillMs > 0) return;
    if (this.#now() - this.#grownMs < this.#everyMs / 2) return;
    this.#isSilent = true;
    this.#options.onSilent(this.lagMs);
  }

  #look(): void {
    const lagMs = this.lagMs;
    if (lagMs < this.#slowMs || this.#isSlow || this.#isSilent) return;
    this.#isSlow = true;
    this.#options.onSlow(lagMs, this.stoodStillMs);
  }
}
