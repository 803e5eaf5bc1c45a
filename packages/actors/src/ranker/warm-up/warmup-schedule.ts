import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import { type Micros, after, millis } from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../../runtime/ports.ts";
import { warmUpLead } from "./takeover-warmup.ts";

export interface WarmedRanker {
  readonly subCluster: string;
  /** Whether a warm-up may run; not while it leads. */
  readonly isDue: () => boolean;
  readonly create: (ports: ActorPorts, config: ActorConfig, ready: () => void) => Actor;
  /** Asks the store for the lease without getting it. */
  readonly ask: () => void;
  /** Sends a message to itself; `echoed` must be called when it comes back. */
  readonly echo: () => void;
}

/**
 * Grants of each lead. V8 compiles code that ran some hundreds of times, and for one ranker alone if it has seen no
 * other by then: a few short leads come first. Later leads only keep the compiled code from being discarded.
 */
const FIRST = [10, 10, 10, 1_000];
const LATER = [20];
/**
 * Messages to itself, one after another, so that the bus code for each is compiled too. On a busy machine there are
 * fewer of them.
 */
const ECHOES = 1_000;
const ECHOES_WITHIN = millis(500);

/** Schedules the warm-ups of a spare: as soon as it is one, and at intervals. */
export class WarmupSchedule {
  readonly #clock: Clock;
  readonly #ranker: WarmedRanker;
  readonly #every: Micros | undefined;
  #ticking: Stop | undefined;
  #isOn = false;
  #echoesLeft = 0;
  #onEchoed: () => void = () => undefined;
  readonly #echoes: Alarm;

  /** @param every - undefined: no warm-ups, as in virtual time */
  constructor(clock: Clock, every: Micros | undefined, ranker: WarmedRanker) {
    this.#clock = clock;
    this.#every = every;
    this.#ranker = ranker;
    this.#echoes = clock.alarm(() => this.#echoed());
  }

  /**
   * The store is open: starts the first warm-up.
   *
   * @param ready - called once the lead has been warmed up, or is ours
   */
  opened(ready: () => void): void {
    if (this.#every === undefined) return ready();
    this.#ranker.ask();
    this.#ticking = this.#clock.every(this.#every, () => this.#warmUp(LATER));
    this.#warmUp(FIRST, () => this.#echo(ready));
  }

  /** A message to itself came back. */
  echoed(): void {
    if (this.#echoesLeft === 0) return;
    this.#echoesLeft--;
    if (this.#echoesLeft > 0 && this.#goesOn) this.#ranker.echo();
    else this.#echoed();
  }

  stop(): void {
    this.#ticking?.stop();
    this.#ticking = undefined;
    this.#echoes.clear();
  }

  #warmUp(leads: readonly number[], over: () => void = () => undefined): void {
    const { isDue, ask } = this.#ranker;
    if (this.#isOn || !isDue()) return over();
    this.#isOn = true;
    this.#lead(leads, () => {
      this.#isOn = false;
      if (this.#ticking === undefined) return;
      if (isDue()) ask();
      over();
    });
  }

  #lead([grants, ...rest]: readonly number[], over: () => void): void {
    const { subCluster, create } = this.#ranker;
    if (grants === undefined || !this.#goesOn) return over();
    const goesOn = (): boolean => this.#goesOn;
    warmUpLead({ clock: this.#clock, subCluster, create, goesOn, grants }, () => this.#lead(rest, over));
  }

  #echo(over: () => void): void {
    if (!this.#goesOn) return over();
    this.#echoesLeft = ECHOES;
    this.#onEchoed = over;
    this.#echoes.set(after(this.#clock.now(), ECHOES_WITHIN));
    this.#ranker.echo();
  }
  #echoed(): void {
    this.#echoesLeft = 0;
    this.#echoes.clear();
    if (this.#ticking !== undefined) this.#onEchoed();
  }

  get #goesOn(): boolean {
    return this.#ticking !== undefined && this.#ranker.isDue();
  }
}
