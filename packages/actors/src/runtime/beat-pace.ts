import { ALWAYS, type Instant, type Micros, after, micros, millis, seconds } from "@tutti/units";

/** An actor that has sent nothing but heartbeats and reports for this long is idle. */
const IDLE_AFTER = seconds(1);
/**
 * Extra interval between heartbeats for each peer heard. Actors that listen to each other hear 40 beats a second of one
 * another at most, however many they are, until beats are as rare as those of idle actors. Otherwise the beats of a
 * cluster would grow with the square of its hosts.
 */
const APART_FOR_EACH = millis(25);

export interface BeatPaceOptions {
  /** Heartbeat interval of an actor that works and hears few peers. */
  readonly heartbeatEvery: Micros;
  /** Heartbeat interval of an idle actor, and the longest of any. Undefined: always `heartbeatEvery`. */
  readonly idleHeartbeatEvery?: Micros | undefined;
}

/** Determines when the next heartbeat is due. */
export class BeatPace {
  readonly #usual: Micros;
  readonly #rare: Micros | undefined;
  #lastWorkAt: Instant = ALWAYS;
  #lastBeatAt: Instant = ALWAYS;
  #isIdle = false;
  #every: Micros;

  constructor({ heartbeatEvery, idleHeartbeatEvery }: BeatPaceOptions) {
    this.#usual = this.#every = heartbeatEvery;
    this.#rare = idleHeartbeatEvery;
  }

  get isIdle(): boolean {
    return this.#isIdle;
  }
  /** Present interval, sent with each beat so that no peer misses one early; undefined: the usual interval. */
  get every(): Micros | undefined {
    return this.#every > this.#usual ? this.#every : undefined;
  }

  /** @returns whether it was idle: then its peers expect it at long intervals, and it beats at once */
  works(now: Instant): boolean {
    this.#lastWorkAt = now;
    const wasIdle = this.#isIdle;
    this.#isIdle = false;
    if (wasIdle) this.#every = this.#usual;
    return wasIdle;
  }

  /** Called once per `heartbeatEvery`. */
  isDue(now: Instant, peersHeard: number): boolean {
    if (this.#rare === undefined) return true;
    const isIdle = now > after(this.#lastWorkAt, IDLE_AFTER);
    const turnsIdle = isIdle && !this.#isIdle;
    this.#isIdle = isIdle;
    const apart = isIdle ? this.#rare : Math.min(this.#rare, peersHeard * APART_FOR_EACH);
    this.#every = micros(Math.max(this.#usual, apart));
    return turnsIdle || now >= after(this.#lastBeatAt, micros(this.#every - this.#usual / 2));
  }

  beats(now: Instant): void {
    this.#lastBeatAt = now;
  }
}
