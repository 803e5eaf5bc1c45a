/**
 * The models' figures over the last minutes, a point a second. The gateway keeps one, so that a page that opens has the
 * past; the page goes on with its own.
 *
 *   HISTORY-1. Bounded (T7): at most `HISTORY_POINTS_MAX` points and `HISTORY_MODELS_MAX` models; the oldest points go
 *              first, then models without any. A model that has requests takes the place of one that had none.
 */
import type { FeedHistory, FeedModel } from "./feed.ts";

/** Fifteen minutes. */
export const HISTORY_POINTS_MAX = 900;
export const HISTORY_MODELS_MAX = 64;

export const HISTORY_COLUMNS = ["good", "goodShare", "queue", "batch", "target", "p99"] as const;
type Column = (typeof HISTORY_COLUMNS)[number];

/** One model over time; null where no value was known. Columns have equal lengths, those of `History.at`. */
export type ModelHistory = { readonly [Name in Column]: (number | null)[] } & { slo: number };

export type HistoryModel = Pick<
  FeedModel,
  "name" | "good" | "late" | "refused" | "queue" | "batchMean" | "target" | "p99Ms" | "sloMs"
>;

export class History {
  /** Seconds since the epoch, ascending. */
  at: number[] = [];
  models = new Map<string, ModelHistory>();

  /** Adds a point, unless this second has one. @param models - the most important first */
  note(second: number, models: readonly HistoryModel[]): void {
    const last = this.at.at(-1);
    if (last !== undefined && last >= second) return;
    const known = new Map(models.map((model) => [model.name, model]));
    for (const model of models) {
      if (this.models.has(model.name)) continue;
      if (this.models.size >= HISTORY_MODELS_MAX && !(isBusy(model) && this.#dropIdle(known))) break;
      this.models.set(model.name, emptyHistory(this.at.length));
    }
    this.at.push(second);
    for (const [name, history] of this.models) add(history, known.get(name));
    if (this.at.length <= HISTORY_POINTS_MAX) return;
    this.at.shift();
    for (const [name, history] of this.models) {
      for (const column of HISTORY_COLUMNS) history[column].shift();
      if (!known.has(name) && history.queue.every((one) => one === null)) this.models.delete(name);
    }
  }

  /** Takes the place of what was kept. */
  restore({ at, models }: FeedHistory): void {
    this.at = [...at];
    this.models.clear();
    for (const model of models) this.restoreModel(model);
  }

  /** Adds one model of the history that was restored, with a place for each of its points. */
  restoreModel({ name, slo, ...columns }: FeedHistory["models"][number]): void {
    if (columns.good.length === this.at.length) this.models.set(name, { slo, ...copied(columns) });
  }

  /** A copy: it may be sent while points are added. */
  toFeed(): FeedHistory {
    const models = [...this.models].map(([name, { slo, ...columns }]) => ({ name, slo, ...copied(columns) }));
    return { at: [...this.at], models };
  }

  /** @returns whether there was a model without a request in the whole history, and with none now */
  #dropIdle(known: ReadonlyMap<string, HistoryModel>): boolean {
    for (const [name, history] of this.models) {
      const now = known.get(name);
      if (now !== undefined && isBusy(now)) continue;
      // A share is known wherever anything was answered or refused.
      if (history.goodShare.some((share) => share !== null) || history.queue.some((queued) => queued)) continue;
      return this.models.delete(name);
    }
    return false;
  }
}

type Columns = Readonly<Record<Column, readonly (number | null)[]>>;
const copied = (columns: Columns): Record<Column, (number | null)[]> => ({
  ...{ good: [...columns.good], goodShare: [...columns.goodShare], queue: [...columns.queue] },
  ...{ batch: [...columns.batch], target: [...columns.target], p99: [...columns.p99] },
});

const isBusy = ({ good, late, refused }: HistoryModel): boolean =>
  (good ?? 0) + (late ?? 0) + Object.values(refused).reduce((sum, rate) => sum + rate, 0) > 0;

const emptyHistory = (length: number): ModelHistory => ({
  ...(Object.fromEntries(
    HISTORY_COLUMNS.map((column) => [column, Array.from({ length }, () => null as number | null)]),
  ) as Record<Column, (number | null)[]>),
  slo: 0,
});

function add(history: ModelHistory, model: HistoryModel | undefined): void {
  const share = model === undefined ? null : goodShare(model);
  history.good.push(model?.good ?? null);
  // Four digits: 99.96 % is not 100 %.
  history.goodShare.push(share === null ? null : Math.floor(10_000 * share) / 10_000);
  history.queue.push(model?.queue ?? null);
  history.batch.push(model?.batchMean ?? null);
  history.target.push(model?.target ?? null);
  history.p99.push(model?.p99Ms ?? null);
  if (model !== undefined) history.slo = model.sloMs;
}

/**
 * Share of good answers: answered in time, of answered and refused together; null without any. Waiting requests do not
 * count.
 */
export function goodShare({ good, late, refused }: Pick<FeedModel, "good" | "late" | "refused">): number | null {
  const bad = (late ?? 0) + Object.values(refused).reduce((sum, rate) => sum + rate, 0);
  const all = (good ?? 0) + bad;
  return all < 0.05 ? null : (good ?? 0) / all;
}
