/**
 * `tutti up --divide`: runs every executor's accelerator as two halves while that carries more of the measured load
 * (docs/algorithms.md, D9), and makes it whole again when it doesn't.
 *
 *   DV1. All of a type are divided alike, and one after the other: a split takes the accelerator away for a drain
 *        (PartSwitch).
 *   DV2. It acts when several reports in a row agree, of windows that don't overlap, each on enough requests; a gain to
 *        begin with is larger than the one to go on with (`divisionOfTypes`), so equal loads come to rest.
 *   DV3. An executor that can't be split now is tried again later. One that an operator has split or made whole since
 *        is left alone.
 */
import { ALWAYS, type Instant, type Micros, after, seconds } from "@tutti/units";
import {
  type DivisibleFraction,
  type Interference,
  type TypedDivision,
  divisibleModels,
  divisionOfTypes,
} from "@tutti/planning";

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

/** Accelerators that are alike. */
export interface DivisibleExecutors {
  /** For people, where there are several. */
  readonly type: string;
  readonly known: DivisibleModels;
  /** The executors' processes, one accelerator each. */
  readonly names: readonly string[];
}

export interface DividerOptions {
  readonly types: readonly DivisibleExecutors[];
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
  /** By type, whether its accelerators should run as halves. */
  #divided: readonly boolean[];
  /** Another division, on which reports in a row agree. */
  #next = "";
  #agreeing = 0;
  #countedAt: Instant = ALWAYS;
  #isSwitching = false;
  #isClosed = false;
  #unknown = "";
  /** Failures as they were told last. */
  #failures = "";

  constructor(options: DividerOptions) {
    this.#options = options;
    this.#divided = options.types.map(() => false);
    this.#sizes = new Map(options.types.flatMap(({ names }) => names.map((name) => [name, WHOLE])));
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
    const next = String(division?.divided ?? this.#divided);
    if (next !== this.#next || next === String(this.#divided)) this.#agreeing = 0;
    this.#next = next;
    if (next !== String(this.#divided)) this.#agreeing++;
    if (division !== undefined && this.#agreeing >= AGREEING) this.#turn(division);
    await this.#follow();
  }

  close(): void {
    this.#isClosed = true;
  }

  #divisionOf(loads: readonly MeasuredLoad[]): TypedDivision {
    const { types } = this.#options;
    const byType = types.map(({ known }) => {
      const models = loads.map(({ name, rate, sloMs, dispersion = 1 }, id): DivisibleFraction => {
        return { ...known.models.get(name)!, id, rate: rate / 1_000, slo: sloMs, dispersion };
      });
      return divisibleModels(models, known.interference);
    });
    const asked = byType[0]!.map(({ share, slo, dispersion }, i) => {
      const on = byType.map((models) => models[i]!);
      return { share, slo, dispersion, profiles: on.map(({ profile }) => profile), halves: on.map(({ half }) => half) };
    });
    return divisionOfTypes(
      asked,
      types.map(({ names }, i) => ({ count: names.length, isDivided: this.#divided[i]! })),
    );
  }

  #turn({ divided, halves, whole }: TypedDivision): void {
    const { types, say } = this.#options;
    const isMore = divided.some((is, i) => is && !this.#divided[i]!);
    const own = types.filter((_, i) => (isMore ? divided[i] : this.#divided[i] !== divided[i]));
    const which = types.length === 1 ? "accelerators" : `${own.map(({ type }) => type).join(" and ")} accelerators`;
    this.#agreeing = 0;
    this.#divided = divided;
    const [halvesRps, wholeRps] = [halves, whole].map(({ carried }) => Math.round(1_000 * carried));
    const how = isMore ? "run as two halves each" : "are made whole again";
    const text = `${which} ${how}: halves are expected to carry ${halvesRps} r/s of this load, whole ones ${wholeRps}`;
    const halved = types.filter((_, i) => divided[i]).map(({ type }) => type);
    const kind = halved.length > 0 ? "halves" : "whole";
    say("dividing", text, { kind, ...(types.length > 1 && { types: halved }), halvesRps, wholeRps });
  }

  /** DV1, DV3. */
  async #follow(): Promise<void> {
    const { types, isSplit, split, say } = this.#options;
    const left = types.flatMap(({ names }, i) => {
      const size = this.#divided[i] === true ? HALF : WHOLE;
      return names.flatMap((name) => {
        const before = this.#sizes.get(name)!;
        return before !== size && isSplit(name) === (before === HALF) ? [{ name, size }] : [];
      });
    });
    if (left.length === 0) return;
    this.#isSwitching = true;
    const failed: string[] = [];
    for (const { name, size } of left) {
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
    const sizes = new Set(left.map(({ size }) => size));
    const how = [...sizes].map((size) => (size === HALF ? "run as two halves each" : "are whole again")).join(" or ");
    const count = `${left.length - failed.length} of ${left.length}`;
    say("divided", `${count} accelerators ${how}${rest}`, { ...(sizes.size === 1 && { size: left[0]!.size }), failed });
  }

  /** Whether every served model is known on halves; the first report with one that isn't says so. */
  #isKnown(loads: readonly MeasuredLoad[]): boolean {
    const { types, say } = this.#options;
    const missing = loads
      .filter(({ name }) => !types.every(({ known }) => known.models.has(name)))
      .map(({ name }) => name);
    const unknown = missing.join(", ");
    if (unknown !== "" && unknown !== this.#unknown)
      say("division-unknown", `accelerators stay as they are: nothing is known of ${unknown} on halves`, { missing });
    this.#unknown = unknown;
    return missing.length === 0;
  }
}
