/**
 * `tutti up --divide`: runs every executor's accelerator as two halves while that carries more of the measured load
 * (docs/algorithms.md, D9), and makes it whole again when it doesn't.
 *
 *   DV1. All are divided alike, and one after the other: a split takes the accelerator away for a drain (PartSwitch).
 *   DV2. It acts when several reports in a row agree, of windows that don't overlap, each on enough requests; a gain to
 *        begin with is larger than the one to go on with (`divisionOf`), so equal loads come to rest.
 *   DV3. An executor that can't be split now is tried again later. One that an operator has split or made whole since
 *        is left alone.
 */
import { ALWAYS, type Instant, type Micros, after, seconds } from "@tutti/units";
import { type DivisibleFraction, type Division, type Interference, divisionOfFractions } from "@tutti/planning";

/** Models whose latencies on halves are known, by name. */
export interface DivisibleModels {
  readonly models: ReadonlyMap<string, Pick<DivisibleFraction, "batchMax" | "latency" | "cacheUse" | "bandwidthUse">>;
  readonly interference: Interference | undefined;
}

/** A served model as the planner has measured it. */
export interface MeasuredLoad {
  readonly name: string;
  /** Requests per second. */
  readonly rate: number;
  readonly sloMs: number;
  readonly dispersion: number | undefined;
}

export interface DividerOptions {
  readonly known: DivisibleModels;
  /** The executors' processes, one accelerator each. */
  readonly names: readonly string[];
  readonly isSplit: (name: string) => boolean;
  /** @throws why it can't be done now */
  readonly split: (name: string, size: number) => Promise<void>;
  readonly say: (event: string, text: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** DV2. */
const AGREEING = 3;
/** The planner's window of rates. */
const WINDOW: Micros = seconds(5);
/** Requests per second of all models: fewer say too little about their shares. */
const RATE_MIN = 20;
const HALF = 50;
const WHOLE = 100;

export class Divider {
  readonly #options: DividerOptions;
  /** Executors as the divider has left them. */
  readonly #sizes: Map<string, number>;
  #kind: Division["kind"] = "whole";
  #agreeing = 0;
  #countedAt: Instant = ALWAYS;
  #isSwitching = false;
  #isClosed = false;
  #unknown = "";
  /** Failures as they were told last. */
  #failures = "";

  constructor(options: DividerOptions) {
    this.#options = options;
    this.#sizes = new Map(options.names.map((name) => [name, WHOLE]));
  }

  /**
   * Takes a report of the planner.
   *
   * @param at - when it was made
   * @returns once everything that it led to is done
   */
  async hear(loads: readonly MeasuredLoad[], at: Instant): Promise<void> {
    if (this.#isSwitching || this.#isClosed || at < after(this.#countedAt, WINDOW)) return;
    this.#countedAt = at;
    const asked = loads.filter(({ rate }) => rate > 0);
    const isTold = this.#isKnown(asked) && asked.reduce((sum, { rate }) => sum + rate, 0) >= RATE_MIN;
    const division = isTold ? this.#divisionOf(asked) : undefined;
    this.#agreeing = division === undefined || division.kind === this.#kind ? 0 : this.#agreeing + 1;
    if (division !== undefined && this.#agreeing >= AGREEING) this.#turn(division);
    await this.#follow();
  }

  close(): void {
    this.#isClosed = true;
  }

  #divisionOf(loads: readonly MeasuredLoad[]): Division {
    const { known, names } = this.#options;
    const models = loads.map(({ name, rate, sloMs, dispersion = 1 }, id): DivisibleFraction => {
      return { ...known.models.get(name)!, id, rate: rate / 1_000, slo: sloMs, dispersion };
    });
    return divisionOfFractions(models, names.length, { interference: known.interference, current: this.#kind });
  }

  #turn(division: Division): void {
    this.#agreeing = 0;
    this.#kind = division.kind;
    const [halvesRps, wholeRps] = [division.halves, division.whole].map(({ carried }) => Math.round(1_000 * carried));
    const how = division.kind === "halves" ? "run as two halves each" : "are made whole again";
    const text = `accelerators ${how}: halves are expected to carry ${halvesRps} r/s of this load, whole ones ${wholeRps}`;
    this.#options.say("dividing", text, { kind: division.kind, halvesRps, wholeRps });
  }

  /** DV1, DV3. */
  async #follow(): Promise<void> {
    const { names, isSplit, split, say } = this.#options;
    const size = this.#kind === "halves" ? HALF : WHOLE;
    const left = names.filter((name) => {
      const before = this.#sizes.get(name)!;
      return before !== size && isSplit(name) === (before === HALF);
    });
    if (left.length === 0) return;
    this.#isSwitching = true;
    const failed: string[] = [];
    for (const name of left) {
      if (this.#isClosed) return;
      try {
        await split(name, size);
        this.#sizes.set(name, size);
      } catch (error) {
        failed.push(`${name} (${(error as Error).message})`);
      }
    }
    this.#isSwitching = false;
    const isOld = failed.length === left.length && failed.join() === this.#failures;
    this.#failures = failed.join();
    if (isOld) return;
    const rest = failed.length === 0 ? "" : `; to be tried again: ${failed.join(", ")}`;
    const how = this.#kind === "halves" ? "run as two halves each" : "are whole again";
    say("divided", `${left.length - failed.length} of ${left.length} accelerators ${how}${rest}`, { size, failed });
  }

  /** Whether every served model is known on halves; the first report with one that isn't says so. */
  #isKnown(loads: readonly MeasuredLoad[]): boolean {
    const { known, say } = this.#options;
    const missing = loads.filter(({ name }) => !known.models.has(name)).map(({ name }) => name);
    const unknown = missing.join(", ");
    if (unknown !== "" && unknown !== this.#unknown)
      say("division-unknown", `accelerators stay as they are: nothing is known of ${unknown} on halves`, { missing });
    this.#unknown = unknown;
    return missing.length === 0;
  }
}
