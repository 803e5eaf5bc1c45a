/**
 * Offered and bad requests of each (model, SLO class), in arrays, so that counting touches little memory however many
 * models there are.
 */
import { sloClass } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";

export interface StreamTally {
  readonly model: number;
  /** The shortest of its class that occurred. */
  readonly slo: Micros;
  readonly offered: number;
  /** Refused or late. */
  readonly bad: number;
}

export class StreamTallies {
  /** The stream that each model's last look ended at: nearly always the one that the next asks for. */
  readonly #last: Int32Array;
  /** The SLO of that look. */
  readonly #lastSlo: Float64Array;
  readonly #ofModel: number[][];
  readonly #classes: number[] = [];
  readonly #slos: Micros[] = [];
  readonly #offered: number[] = [];
  readonly #bad: number[] = [];

  constructor(models: number) {
    this.#last = new Int32Array(models);
    this.#lastSlo = new Float64Array(models).fill(-1);
    this.#ofModel = Array.from({ length: models }, () => []);
  }

  noteOffered(model: number, slo: Micros): void {
    const stream = this.#lastSlo[model] === slo ? this.#last[model]! : this.#find(model, slo);
    this.#offered[stream]!++;
  }
  noteBad(model: number, slo: Micros): void {
    const stream = this.#lastSlo[model] === slo ? this.#last[model]! : this.#find(model, slo);
    this.#bad[stream]!++;
  }

  /** In order of models, then of first requests. */
  of(model: number): StreamTally[] {
    return this.#ofModel[model]!.map((stream) => ({
      model,
      slo: this.#slos[stream]!,
      offered: this.#offered[stream]!,
      bad: this.#bad[stream]!,
    }));
  }
  all(): StreamTally[] {
    return this.#ofModel.flatMap((_, model) => this.of(model));
  }

  #find(model: number, slo: Micros): number {
    const its = sloClass(slo);
    let stream = this.#ofModel[model]!.find((one) => this.#classes[one] === its);
    if (stream === undefined) {
      stream = this.#classes.push(its) - 1;
      this.#slos.push(slo);
      this.#offered.push(0);
      this.#bad.push(0);
      this.#ofModel[model]!.push(stream);
    }
    if (slo < this.#slos[stream]!) this.#slos[stream] = slo;
    this.#last[model] = stream;
    this.#lastSlo[model] = slo;
    return stream;
  }
}
