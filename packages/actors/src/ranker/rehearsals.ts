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

/** V8 compiles what ran some hundreds of times; later rehearsals only keep that from being thrown away. */
const FIRST = 1_000;
const LATER = 20;

/** When a spare rehearses the lead: at its start, when the store is there, and every so often. */
export class Rehearsals {
  readonly #ranker: RehearsedRanker;
  readonly #ticking: Stop | undefined;

  /** @param every - undefined: never, as where time is virtual */
  constructor(clock: Clock, every: Micros | undefined, ranker: RehearsedRanker) {
    this.#ranker = ranker;
    if (every === undefined) return;
    this.#rehearse(FIRST);
    this.#ticking = clock.every(every, () => this.#rehearse(LATER));
  }

  opened(): void {
    if (this.#ticking !== undefined) this.#ranker.ask();
  }

  stop(): void {
    this.#ticking?.stop();
  }

  #rehearse(grants: number): void {
    const { subCluster, isDue, create, ask } = this.#ranker;
    if (!isDue()) return;
    rehearseLead(subCluster, create, grants);
    ask();
  }
}
