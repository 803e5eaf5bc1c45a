import type { Clock, Stop } from "@tutti/clock";
import type { Micros } from "@tutti/units";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { rehearseLead } from "./rehearsal.ts";

export interface RehearsedRanker {
  readonly subCluster: string;
  /** Not while it leads. */
  readonly isDue: () => boolean;
  readonly create: (ports: ActorPorts, config: ActorConfig, ready: () => void) => Actor;
  /** Asks the store for the lease without getting it. */
  readonly ask: () => void;
}

/**
 * Grants of each lead. V8 compiles what ran some hundreds of times, and for one ranker alone if it has seen no other by then: a few short leads come first. Later ones only keep what it compiled
 * from being thrown away.
 */
const FIRST = [10, 10, 10, 1_000];
const LATER = [20];

/** When a spare rehearses the lead: as soon as it is one, and every so often. */
export class Rehearsals {
  readonly #clock: Clock;
  readonly #ranker: RehearsedRanker;
  readonly #every: Micros | undefined;
  #ticking: Stop | undefined;
  #isOn = false;

  /** @param every - undefined: never, as where time is virtual */
  constructor(clock: Clock, every: Micros | undefined, ranker: RehearsedRanker) {
    this.#clock = clock;
    this.#every = every;
    this.#ranker = ranker;
  }

  /**
   * The store is there.
   *
   * @param ready - called once the lead has been rehearsed, or is ours
   */
  opened(ready: () => void): void {
    if (this.#every === undefined) return ready();
    this.#ranker.ask();
    this.#ticking = this.#clock.every(this.#every, () => this.#rehearse(LATER));
    this.#rehearse(FIRST, ready);
  }

  stop(): void {
    this.#ticking?.stop();
    this.#ticking = undefined;
  }

  #rehearse(leads: readonly number[], over: () => void = () => undefined): void {
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
    const { subCluster, isDue, create } = this.#ranker;
    const goesOn = (): boolean => this.#ticking !== undefined && isDue();
    if (grants === undefined || !goesOn()) return over();
    rehearseLead({ clock: this.#clock, subCluster, create, goesOn, grants }, () => this.#lead(rest, over));
  }
}
