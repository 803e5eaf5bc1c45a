/** This gateway's counts of its own requests, by model. */
import type { RequestNoted } from "./oip/inference.ts";
import type { OwnTotals } from "./oip/model-statistics.ts";

/** Counts models, and pipelines once they have answered; both are bounded in number. A removed model is forgotten. */
export class OwnRequests {
  readonly #models = new Map<string, OwnTotals>();

  note({ model, outcome, rows }: RequestNoted, nowMs: number): void {
    if (outcome !== "ok") return;
    const { answered = 0, queueUs = 0 } = this.#models.get(model) ?? {};
    this.#models.set(model, {
      answered: answered + rows.length,
      queueUs: queueUs + rows.reduce((sum, row) => sum + (row.queueUs ?? 0), 0),
      lastAtMs: Math.round(nowMs),
    });
  }

  of(model: string): OwnTotals | undefined {
    return this.#models.get(model);
  }

  forget(model: string): void {
    this.#models.delete(model);
  }
}
