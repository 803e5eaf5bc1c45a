import type { DeadUse } from "@tutti/ports/jobs";
import { jobFigure } from "@tutti/protocol";

/** Weight of the last second in the rate that is reported. */
const RATE_WEIGHT = 0.1;
/** Rows of dead letters that are reported, one for each model and code; beyond, only `tutti jobs dead` has them. */
export const DEAD_ROWS_MAX = 1_024;

/** Figures of jobs by model, as runners report them. Backlogs and letters are the whole queue's, in every report. */
export class JobFigures {
  readonly #rates = new Map<string, { doneThisSecond: number; rate: number }>();
  queued: ReadonlyMap<string, number> = new Map();
  letters: DeadUse["letters"] = new Map();

  follow(model: string): void {
    this.#rates.set(model, { doneThisSecond: 0, rate: 0 });
  }
  forget(model: string): void {
    this.#rates.delete(model);
  }

  done(model: string): void {
    const figures = this.#rates.get(model);
    if (figures !== undefined) figures.doneThisSecond++;
  }

  /** Call it once a second. */
  tick(): void {
    for (const figures of this.#rates.values()) {
      figures.rate += RATE_WEIGHT * (figures.doneThisSecond - figures.rate);
      figures.doneThisSecond = 0;
    }
  }

  report(): Record<string, number> {
    const rows: [name: string, value: number][] = [];
    for (const [model, { rate }] of this.#rates) {
      rows.push([jobFigure("rate", model), rate]);
      rows.push([jobFigure("queued", model), this.queued.get(model) ?? 0]);
    }
    let left = DEAD_ROWS_MAX;
    for (const [model, byCode] of this.letters)
      for (const [code, count] of byCode) if (left-- > 0) rows.push([jobFigure("dead", model, code), count]);
    return Object.fromEntries(rows);
  }
}
