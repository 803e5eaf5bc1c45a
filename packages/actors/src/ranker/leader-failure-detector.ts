import type { Bus, Subscription } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import { type ActorKey, type Instant, type Micros, ALWAYS, after, before, micros, millis } from "@tutti/units";

/** The leader named by the lease. */
export interface Watched {
  readonly key: ActorKey;
  readonly epoch: number;
}

export interface LeaderFailureDetectorOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  /** Ping interval while it is urgent; otherwise pings are a tenth as frequent. */
  readonly pingEvery: Micros;
  /**
   * Time within which a living leader is heard after our connection was made again. Before that it is unknown whether
   * its own connection was.
   */
  readonly heardWithin: Micros;
  /**
   * How long questions may stay unanswered while the connection stands. This does not detect a killed leader; a living
   * one on a machine all of whose cores are busy was silent for up to half a second, several times a minute.
   */
  readonly hangsAfter: Micros;
  readonly subjectOf: (key: ActorKey) => string;
  /** undefined while nobody leads, or we do. */
  readonly leader: () => Watched | undefined;
  /** Whether it was heard since our connection was last made. */
  readonly wasHeard: (key: ActorKey) => boolean;
  /** Whether we are the spare that should notice first, of a leader that has work. */
  readonly isUrgent: () => boolean;
  /**
   * Whether its process lives; undefined: that can't be seen from here. Without this function processes are not
   * watched.
   */
  readonly lives?: (leader: Watched) => boolean | undefined;
  /** Asks the leader for a sign of life; `answered` must be called with the epoch that its answer names. */
  readonly ask: (leader: Watched) => void;
  /** Total time so far in which the server itself was stalled: µs. Silence in that time is no sign of a hang. */
  readonly stalledUs: () => number;
  /** Called repeatedly for as long as the evidence stands. */
  readonly onGone: (leader: Watched, how: "gone" | "hangs") => void;
}

/**
 * Pings per question. A ping is an empty message to a subject of the leader that it subscribes to but ignores: the
 * server replies only if there is no responder. A leader that is reached over a link is not pinged: the kernel closes
 * the link when its process ends, and the next ping goes by the server.
 */
const PINGS_PER_ASK = 5;
const RELAXED_TIMES = 10;
/**
 * Time without a responder that proves a leader gone on our first connection. The server of that connection has been
 * there longer than we have, and so has the leader.
 */
const FIRST_HEARD_WITHIN = millis(100);
/**
 * How often the first spare checks whether the leader's process ends. Its sockets are closed only when its memory has
 * been given back: 10 to 20 ms after SIGKILL with 130 MB. A check costs some 30 µs: at 2 ms it would be more than a
 * hundredth of a core.
 */
const LOOK_EVERY = millis(5);
/**
 * A leader hangs if it leaves more than UNANSWERED questions in a row unanswered for a time limit. HANGS_AFTER_MAX
 * bounds that limit, unless twice `hangsAfter` is more.
 */
const UNANSWERED = 4;
const HANGS_AFTER_MAX = millis(500);
/** Factor on our own lateness, which is added to the limit. If we wait for a processor, so may the leader. */
const LATENESS_TIMES = 6;
/** Decay of the worst lateness, per ping: at 2 ms half of it is forgotten in 2.8 s. */
const FADING = 0.9995;

/**
 * Detects that the leader is gone or hangs. The server, or the kernel of a shared host, reports that it is gone; a
 * leader that does not answer while its connection stands hangs.
 *
 *   LV1. Only a process that was seen alive is taken for one that ends: where hosts have the same name, its number may
 *        belong to another process.
 *   LV2. A spare that need not look closely does not wake for it.
 */
export class LeaderFailureDetector {
  readonly #options: LeaderFailureDetectorOptions;
  readonly #inbox: string;
  readonly #subscription: Subscription;
  #every: Micros;
  #ticking: Stop;
  #looking: Stop | undefined;
  #watched: Watched | undefined;
  /** LV1. */
  #wasSeen = false;
  /** Since when it is watched on the present connection. */
  #since: Instant = ALWAYS;
  #heardWithin: Micros;
  #tickedAt: Instant;
  #pings = 0;
  #worstLateUs = 0;
  #oldestAskedAt: Instant | undefined;
  #stalledUs = 0;
  #unanswered = 0;

  constructor(options: LeaderFailureDetectorOptions) {
    this.#options = options;
    const { bus, clock, pingEvery } = options;
    this.#every = pingEvery;
    this.#heardWithin = micros(Math.min(FIRST_HEARD_WITHIN, options.heardWithin));
    this.#tickedAt = clock.now();
    this.#inbox = bus.newInbox();
    this.#subscription = bus.subscribe(`${this.#inbox}.*`, (delivery) => {
      if (delivery.payload.length > 0 || delivery.header("Status") !== "503") return;
      this.#onNobody(Number(delivery.subject.slice(this.#inbox.length + 1)));
    });
    this.#ticking = clock.every(this.#every, () => this.#tick());
    if (options.lives !== undefined) this.#looking = clock.every(LOOK_EVERY, () => this.#look());
  }

  /** The leader with that epoch has answered. */
  answered(epoch: number): void {
    if (epoch === this.#watched?.epoch) this.#oldestAskedAt = undefined;
  }

  /**
   * Our connection was made again. Earlier questions are lost, and actors that are not there yet may still come back.
   */
  reconnected(): void {
    this.#heardWithin = this.#options.heardWithin;
    this.#begin(this.#watched);
  }

  stop(): void {
    this.#ticking.stop();
    this.#looking?.stop();
    this.#subscription.stop();
  }

  #begin(leader: Watched | undefined): void {
    this.#watched = leader;
    this.#wasSeen = false;
    this.#since = this.#options.clock.now();
    this.#oldestAskedAt = undefined;
  }

  #tick(): void {
    const { bus, clock, pingEvery, leader: leads, isUrgent } = this.#options;
    const now = clock.now();
    const late = now - this.#tickedAt - this.#every;
    this.#worstLateUs = Math.max(this.#worstLateUs * FADING ** (this.#every / pingEvery), late);
    this.#tickedAt = now;
    const leader = leads();
    if (leader?.epoch !== this.#watched?.epoch) this.#begin(leader);
    if (leader === undefined) return this.#pace(false, RELAXED_TIMES);
    const subject = this.#options.subjectOf(leader.key);
    const isLinked = bus.isNear?.(subject) === true;
    const isClose = isUrgent();
    this.#pace(isClose, isClose ? (isLinked ? PINGS_PER_ASK : 1) : RELAXED_TIMES);
    if (!bus.connected) return;
    if (!isLinked) bus.publish(subject, NOTHING, { reply: `${this.#inbox}.${leader.epoch}` });
    // Without pings every tick asks a question.
    if (this.#pings++ % (isClose && isLinked ? 1 : PINGS_PER_ASK) === 0) this.#ask(leader, now);
    if (this.#hangs(now)) this.#options.onGone(leader, "hangs");
  }

  /** LV2. @param times - ticks come after so many times `pingEvery` */
  #pace(looks: boolean, times: number): void {
    const { clock, pingEvery, lives } = this.#options;
    const every = micros(times * pingEvery);
    if (every !== this.#every) {
      this.#every = every;
      this.#ticking.stop();
      this.#ticking = clock.every(every, () => this.#tick());
    }
    if (looks === (this.#looking !== undefined) || lives === undefined) return;
    this.#looking?.stop();
    this.#looking = looks ? clock.every(LOOK_EVERY, () => this.#look()) : undefined;
  }

  #look(): void {
    const { lives, isUrgent, onGone } = this.#options;
    const leader = this.#watched;
    if (leader === undefined || lives === undefined || !isUrgent()) return;
    const state = lives(leader);
    if (state === true) this.#wasSeen = true;
    else if (state === false && this.#wasSeen) onGone(leader, "gone");
  }

  #ask(leader: Watched, now: Instant): void {
    if (this.#oldestAskedAt === undefined) {
      this.#oldestAskedAt = now;
      this.#stalledUs = this.#options.stalledUs();
      this.#unanswered = 0;
    }
    this.#unanswered++;
    this.#options.ask(leader);
  }

  #hangs(now: Instant): boolean {
    if (this.#oldestAskedAt === undefined || this.#unanswered <= UNANSWERED) return false;
    const { hangsAfter, stalledUs } = this.#options;
    const most = Math.max(HANGS_AFTER_MAX, 2 * hangsAfter);
    const patience = Math.min(hangsAfter + LATENESS_TIMES * this.#worstLateUs, most);
    return this.#oldestAskedAt <= before(now, micros(Math.round(patience + stalledUs() - this.#stalledUs)));
  }

  #onNobody(epoch: number): void {
    const { leader: leads, wasHeard, clock, onGone } = this.#options;
    const leader = leads();
    if (leader === undefined || leader.epoch !== epoch || leader.epoch !== this.#watched?.epoch) return;
    if (wasHeard(leader.key) || clock.now() > after(this.#since, this.#heardWithin)) onGone(leader, "gone");
  }
}

const NOTHING = new Uint8Array(0);
