/** When this gateway last had an answer, by model. */
import type { RequestNoted } from "./oip/inference.ts";
import type { OwnTotals } from "./oip/model-statistics.ts";

/** Counts models, and pipelines once they have answered; both are bounded in number. A removed model is forgotten. */
export class OwnRequests {
  readonly #models = new Map<string, OwnTotals>();

  note({ model, outcome }: RequestNoted, nowMs: number): void {
    if (outcome === "ok") this.#models.set(model, { lastAtMs: Math.round(nowMs) });
  }

  of(model: string): OwnTotals | undefined {
    return this.#models.get(model);
  }

  forget(model: string): void {
    this.#models.delete(model);
  }
}
