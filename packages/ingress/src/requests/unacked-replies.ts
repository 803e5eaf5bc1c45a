import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import { ALWAYS, type Instant, type Micros, after, millis, seconds } from "@tutti/units";

/**
 * Bounds of the kept answers, in number and bytes (T7). Beyond them the oldest are dropped, first those that were sent.
 */
export const KEPT_MAX = 65_536;
export const KEPT_BYTES_MAX = 67_108_864;
/** Bounds of those whose publisher is away. */
export const AWAY_MAX = 1_024;
export const AWAY_BYTES_MAX = 16_777_216;
/**
 * How often the server is asked whether it has the sent answers. Unconfirmed ones are sent again after a break, so this
 * bounds the repeats.
 */
const CONFIRM_EVERY: Micros = millis(5);
/**
 * How long a server may have a confirmed answer without having passed it on. A server that ends within that loses it.
 */
const PASS_ON_WITHIN: Micros = millis(5);
/** Empty ticks after which the ticking stops. */
const IDLE_TICKS = 40;
/** Age at which an undelivered answer is useless. */
const KEEP_FOR: Micros = seconds(10);
/** How long an answer waits for an absent publisher: most clients come back within 2 s. */
const AWAY_FOR: Micros = seconds(5);
const DRAIN_FOR: Micros = seconds(2);
const RETRY_MIN: Micros = millis(20);
const RETRY_MAX: Micros = millis(500);

export interface UnackedRepliesOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly keptMax?: number;
  readonly awayMax?: number;
}

interface Kept {
  readonly reply: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly firstAt: Instant;
  /** Times that the bus took it. */
  sent: number;
  retryAt: Instant;
  retryAfter: Micros;
}

/**
 * Keeps answers until it is known that they have left, so that none is lost with a connection (docs/architecture.md,
 * 4).
 *
 *   K1. The server confirms all messages that came before a PING; one is under way at a time, every 5 ms at most. When
 *       the connection is made again, these are sent again: answers that no PONG confirmed, those that waited
 *       meanwhile, and those confirmed so shortly before the break that they may have ended with the server. A
 *       publisher may then see a repeat, under the same reply subject.
 *   K2. Each answer carries a reply subject of ours, so the server says if nobody listened: the publisher's own
 *       connection is away, as all are when a server restarts. The answer is sent again until the publisher is back.
 */
export class UnackedReplies {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #keptMax: number;
  readonly #awayMax: number;
  readonly #inbox: string;
  readonly #subscriptions: Subscription[];
  /** Sent since the last PING, or to be sent on the next connection. The first of them has the number #firstOpen. */
  #open: (Kept | undefined)[] = [];
  #firstOpen = 0;
  /** Sent before the PING that is under way. */
  #confirming: (Kept | undefined)[] = [];
  #firstConfirming = 0;
  /** Confirmed last, and perhaps not passed on yet. */
  #passing: (Kept | undefined)[] = [];
  #passingSince: Instant = ALWAYS;
  #away: Kept[] = [];
  #bytes = 0;
  #awayBytes = 0;
  /** Number of the PING under way, which tells it from one of an earlier connection; 0: none. */
  #ping = 0;
  #pings = 0;
  #ticking: Stop | undefined;
  #idleTicks = 0;
  #drained: (() => void) | undefined;
  #drainBy: Instant = ALWAYS;
  /** Answers that were dropped, as far as we know unheard. */
  lost = 0;
  /** Answers sent more than once. */
  repeated = 0;

  constructor(options: UnackedRepliesOptions) {
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#keptMax = options.keptMax ?? KEPT_MAX;
    this.#awayMax = options.awayMax ?? AWAY_MAX;
    this.#inbox = options.bus.newInbox();
    this.#subscriptions = [
      options.bus.subscribe(`${this.#inbox}.*`, (delivery) => this.#onUnheard(delivery)),
      options.bus.onStatus((status) => {
        if (status.kind === "reconnected") this.#sendAgain();
      }),
    ];
  }

  /** Number of answers kept now. */
  get size(): number {
    return this.#open.length + this.#confirming.length + this.#away.length;
  }

  /** @param payload - not changed again by the caller */
  send(reply: string, payload: Uint8Array, headers: Kept["headers"]): void {
    const now = this.#clock.now();
    const kept = { reply, payload, headers, firstAt: now, sent: 0, retryAt: now, retryAfter: RETRY_MIN };
    this.#bytes += payload.byteLength;
    this.#publish(kept);
    this.#makeRoom();
    this.#tick();
  }

  /**
   * Calls back when every answer has left, or after two seconds. A publisher that is away for longer finds no ingress
   * that waits.
   */
  drain(done: () => void): void {
    this.#drainBy = after(this.#clock.now(), DRAIN_FOR);
    this.#drained = () => {
      this.#drained = undefined;
      this.#ticking?.stop();
      for (const subscription of this.#subscriptions) subscription.stop();
      done();
    };
    this.#confirm();
    this.#tick();
    this.#endIfDrained();
  }

  #endIfDrained(): void {
    if (this.size > 0 && this.#clock.now() < this.#drainBy) return;
    this.#drained?.();
  }

  #publish(kept: Kept): void {
    const token = this.#firstOpen + this.#open.length;
    const reply = `${this.#inbox}.${token.toString(36)}`;
    const { headers } = kept;
    if (this.#bus.publish(kept.reply, kept.payload, headers === undefined ? { reply } : { reply, headers })) {
      if (kept.sent++ === 1) this.repeated++;
    } else if (this.#bus.connected) {
      // It can't be sent at all.
      this.#letGo(kept);
      return;
    }
    this.#open.push(kept);
  }

  #letGo(kept: Kept): void {
    this.lost++;
    this.#bytes -= kept.payload.byteLength;
  }

  #confirm(): void {
    // Answers that a broken connection left unconfirmed are sent again first.
    if (this.#ping !== 0 || this.#confirming.length > 0) return;
    if (this.#open.length === 0 || !this.#bus.connected) return;
    this.#confirming = this.#open;
    this.#firstConfirming = this.#firstOpen;
    this.#firstOpen += this.#open.length;
    this.#open = [];
    const ping = (this.#ping = ++this.#pings);
    this.#bus.flush((reached) => {
      if (ping === this.#ping) this.#onPong(reached);
    });
  }

  #onPong(reached: boolean): void {
    this.#ping = 0;
    if (!reached) return; // #sendAgain runs with the next connection.
    this.#forgetPassing();
    this.#passing = this.#confirming;
    this.#passingSince = this.#clock.now();
    this.#confirming = [];
    if (this.#drained === undefined) return;
    this.#confirm();
    this.#endIfDrained();
  }

  #forgetPassing(): void {
    for (const kept of this.#passing) this.#bytes -= kept?.payload.byteLength ?? 0;
    this.#passing = [];
  }

  /** The server reports that nobody subscribes to the reply subject of an answer. */
  #onUnheard(delivery: Delivery): void {
    if (delivery.payload.byteLength > 0 || delivery.header("Status") !== "503") return;
    const token = parseInt(delivery.subject.slice(this.#inbox.length + 1), 36);
    const isConfirming = token < this.#firstOpen;
    const list = isConfirming ? this.#confirming : this.#open;
    const index = token - (isConfirming ? this.#firstConfirming : this.#firstOpen);
    const kept = list[index];
    if (kept === undefined) return;
    list[index] = undefined;
    this.#bytes -= kept.payload.byteLength;
    const now = this.#clock.now();
    if (now >= after(kept.firstAt, AWAY_FOR)) {
      this.lost++;
      return;
    }
    kept.retryAt = after(now, kept.retryAfter);
    kept.retryAfter = Math.min(2 * kept.retryAfter, RETRY_MAX) as Micros;
    this.#away.push(kept);
    this.#awayBytes += kept.payload.byteLength;
    while (this.#away.length > this.#awayMax || this.#awayBytes > AWAY_BYTES_MAX) {
      this.#awayBytes -= this.#away.shift()!.payload.byteLength;
      this.lost++;
    }
  }

  /** A new connection: answers that the old one did not confirm may be lost. */
  #sendAgain(): void {
    const again = [...this.#passing, ...this.#confirming, ...this.#open];
    this.#passing = [];
    this.#ping = 0;
    this.#firstOpen += this.#open.length;
    this.#open = [];
    this.#confirming = [];
    const oldest = this.#clock.now() - KEEP_FOR;
    for (const kept of again) {
      if (kept === undefined) continue;
      if (kept.firstAt < oldest) this.#letGo(kept);
      else this.#publish(kept);
    }
    this.#confirm();
    this.#tick();
    this.#endIfDrained();
  }

  #retry(now: Instant): void {
    const due = this.#away.filter(({ retryAt }) => retryAt <= now);
    if (due.length === 0) return;
    this.#away = this.#away.filter(({ retryAt }) => retryAt > now);
    for (const kept of due) {
      this.#awayBytes -= kept.payload.byteLength;
      this.#bytes += kept.payload.byteLength;
      this.#publish(kept);
    }
  }

  get #isFull(): boolean {
    const count = this.#open.length + this.#confirming.length + this.#passing.length;
    return count > this.#keptMax || this.#bytes > KEPT_BYTES_MAX;
  }

  #makeRoom(): void {
    if (!this.#isFull) return;
    this.#forgetPassing();
    if (!this.#isFull) return;
    // Sent answers have probably arrived: they only lose their protection against a break.
    const list = this.#confirming.length > 0 ? this.#confirming : this.#open;
    const count = Math.ceil(list.length / 16);
    for (const kept of list.splice(0, count)) {
      this.#bytes -= kept?.payload.byteLength ?? 0;
      if (kept?.sent === 0) this.lost++;
    }
    if (list === this.#open) this.#firstOpen += count;
    else this.#firstConfirming += count;
  }

  #tick(): void {
    this.#idleTicks = 0;
    this.#ticking ??= this.#clock.every(CONFIRM_EVERY, () => this.#onTick());
  }

  #onTick(): void {
    if (this.#bus.connected) {
      const now = this.#clock.now();
      if (now >= after(this.#passingSince, PASS_ON_WITHIN)) this.#forgetPassing();
      this.#retry(now);
      this.#confirm();
    }
    if (this.#drained !== undefined) this.#endIfDrained();
    else if (this.size > 0) this.#idleTicks = 0;
    else if (++this.#idleTicks > IDLE_TICKS) {
      this.#ticking?.stop();
      this.#ticking = undefined;
    }
  }
}
