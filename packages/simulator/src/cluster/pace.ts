/** At what rate a model's requests come over time: the scenario's phases, and what its process does to them. */
import type { Micros, Prng } from "@tutti/units";
import { nextGamma } from "../scenario/gaps.ts";
import type { Arriving } from "../scenario/scenario.ts";

/** A rate that is constant for a while. */
export interface Pace {
  /** Requests per µs. */
  readonly perMicro: number;
  /** In µs from the beginning; Infinity for the last. */
  readonly until: number;
  /** On to what begins at `until`. */
  advance(): void;
}

/** @param prng - a process that draws its rate forks it, others leave it alone */
export function courseOf(scenario: Arriving, model: number, prng: Prng): Pace {
  const phases = new Phases(ratesOf(scenario, model));
  const { arrivals } = scenario;
  return arrivals.process === "modulated" ? new ModulatedPace(phases, arrivals, prng.fork()) : phases;
}

/** A rate, in requests per µs, from a moment on. */
interface Rate {
  readonly from: number;
  readonly perMicro: number;
}

/** Before the first phase its factor is 1; a phase without shares has the scenario's. */
function ratesOf({ rate, phases, models }: Arriving, model: number): Rate[] {
  const { share } = models[model]!;
  const perMicro = rate / 1e6;
  const changes = phases.map(({ from, factor, shares }) => ({
    from,
    perMicro: perMicro * factor * (shares?.[model] ?? share),
  }));
  const sorted = changes.toSorted((a, b) => a.from - b.from);
  return sorted[0]?.from === 0 ? sorted : [{ from: 0, perMicro: perMicro * share }, ...sorted];
}

class Phases implements Pace {
  perMicro: number;
  until: number;
  readonly #rates: readonly Rate[];
  #next = 1;

  constructor(rates: readonly Rate[]) {
    this.#rates = rates;
    this.perMicro = rates[0]!.perMicro;
    this.until = rates[1]?.from ?? Infinity;
  }

  advance(): void {
    this.perMicro = this.#rates[this.#next++]!.perMicro;
    this.until = this.#rates[this.#next]?.from ?? Infinity;
  }
}

/** The phases' rate times Gamma(shape)/shape, drawn every `every` µs. */
class ModulatedPace implements Pace {
  perMicro = 0;
  until = 0;
  readonly #phases: Phases;
  readonly #shape: number;
  readonly #every: number;
  readonly #prng: Prng;
  #factor = 1;
  #drawUntil = 0;

  constructor(phases: Phases, { shape, every }: { readonly shape: number; readonly every: Micros }, prng: Prng) {
    this.#phases = phases;
    this.#shape = shape;
    this.#every = every;
    this.#prng = prng;
    this.advance();
  }

  advance(): void {
    if (this.until === this.#phases.until) this.#phases.advance();
    if (this.until === this.#drawUntil) {
      this.#factor = nextGamma(this.#prng, this.#shape) / this.#shape;
      this.#drawUntil += this.#every;
    }
    // After the last phase with requests none come any more: then there is nothing left to draw.
    const isOver = this.#phases.until === Infinity && this.#phases.perMicro === 0;
    this.perMicro = this.#phases.perMicro * this.#factor;
    this.until = isOver ? Infinity : Math.min(this.#phases.until, this.#drawUntil);
  }
}
