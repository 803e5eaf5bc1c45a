/**
 * State of the page: the last state, the bars of the last minute, the history of the last minutes. All of it is bounded
 * here (T7).
 *
 *   STORE-1. Of bars at most `BARS_KEPT`, of seconds of history `HISTORY_S`, of models in it `HISTORY_MODELS`; the
 *            oldest go first.
 */
import type {
  FeedBatches,
  FeedEvents,
  FeedHello,
  FeedModel,
  FeedOperation,
  FeedPlan,
  FeedRefusal,
  FeedState,
} from "../src/feed.ts";
import { BATCH_ROW_WIDTH } from "../src/feed.ts";

/** A batch on the timeline; times in ms. */
export interface Bar {
  /** The model's number in the live view, its place in a replay. */
  readonly model: number;
  readonly gpu: number;
  readonly size: number;
  readonly failed: number;
  /** Arrival of its first request. */
  readonly first: number;
  readonly granted: number;
  readonly start: number;
  readonly end: number;
}

export const BARS_KEPT = 20_000;
export const BARS_LAST_MS = 65_000;
export const HISTORY_S = 300;
export const HISTORY_MODELS = 64;
export const REFUSALS_KEPT = 200;
export const OPERATIONS_KEPT = 50;

/** One model over time; null where no value was known. Columns have equal lengths, those of `History.at`. */
export interface ModelHistory {
  readonly good: (number | null)[];
  readonly goodShare: (number | null)[];
  readonly queue: (number | null)[];
  readonly batch: (number | null)[];
  readonly target: (number | null)[];
  readonly p99: (number | null)[];
  slo: number;
}
export interface History {
  /** Seconds since the epoch. */
  readonly at: number[];
  readonly models: Map<string, ModelHistory>;
}

const COLUMNS = ["good", "goodShare", "queue", "batch", "target", "p99"] as const;

export class LiveStore {
  hello: FeedHello | undefined;
  state: FeedState | undefined;
  plan: FeedPlan | undefined;
  bars: Bar[] = [];
  /** Batches that the feed left out. */
  barsLeft = 0;
  refusals: FeedRefusal[] = [];
  operations: FeedOperation[] = [];
  readonly history: History = { at: [], models: new Map() };
  connected = false;
  /** The gateway sends nothing without a key. */
  needsKey = false;
  /** The cluster's time less this browser's, in ms. */
  offset = 0;
  readonly #listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  setNeedsKey(needsKey: boolean): void {
    if (this.needsKey === needsKey) return;
    this.needsKey = needsKey;
    this.#changed();
  }

  setConnected(connected: boolean): void {
    if (connected === this.connected) return;
    this.connected = connected;
    this.#changed();
  }

  apply<Name extends keyof FeedEvents>(name: Name, value: FeedEvents[Name], nowMs: number): void {
    switch (name) {
      case "hello":
        this.hello = value as FeedHello;
        this.refusals = [];
        break;
      case "state":
        this.#onState(value as FeedState, nowMs);
        break;
      case "plan":
        this.plan = value as FeedPlan;
        break;
      case "batches":
        this.#onBatches(value as FeedBatches);
        break;
      case "refusals":
        this.refusals = [...this.refusals, ...(value as FeedRefusal[])].slice(-REFUSALS_KEPT);
        break;
      case "operation":
        this.operations = [...this.operations, value as FeedOperation].slice(-OPERATIONS_KEPT);
        break;
    }
    this.#changed();
  }

  #onState(state: FeedState, nowMs: number): void {
    this.state = state;
    this.offset = state.at - nowMs;
    const second = Math.floor(state.at / 1_000);
    const { at, models } = this.history;
    if (at.at(-1) === second) return;
    at.push(second);
    for (const model of state.models.slice(0, HISTORY_MODELS)) {
      if (!models.has(model.name) && models.size < HISTORY_MODELS) models.set(model.name, emptyHistory(at.length - 1));
    }
    const known = new Map(state.models.map((model) => [model.name, model]));
    for (const [name, history] of models) note(history, known.get(name));
    if (at.length <= HISTORY_S) return;
    at.shift();
    for (const [name, history] of models) {
      for (const column of COLUMNS) history[column].shift();
      if (!known.has(name) && history.queue.every((one) => one === null)) models.delete(name);
    }
  }

  #onBatches({ at, left, rows }: FeedBatches): void {
    this.barsLeft += left;
    const fresh = barsOf(rows, (ago) => at - ago / 1_000);
    const oldest = at - BARS_LAST_MS;
    this.bars = [...this.bars.filter(({ end }) => end >= oldest), ...fresh].slice(-BARS_KEPT);
  }
}

/** @param time - converts a time in `rows` to ms */
export function barsOf(rows: readonly number[], time: (told: number) => number): Bar[] {
  const bars: Bar[] = [];
  for (let i = 0; i + BATCH_ROW_WIDTH <= rows.length; i += BATCH_ROW_WIDTH) {
    const [model = 0, gpu = 0, size = 0, failed = 0, first = 0, granted = 0, start = 0, end = 0] = rows.slice(
      i,
      i + BATCH_ROW_WIDTH,
    );
    bars.push({
      model,
      gpu,
      size,
      failed,
      first: time(first),
      granted: time(granted),
      start: time(start),
      end: time(end),
    });
  }
  return bars;
}

function emptyHistory(length: number): ModelHistory {
  const nothing = (): null[] => Array.from({ length }, () => null);
  return {
    good: nothing(),
    goodShare: nothing(),
    queue: nothing(),
    batch: nothing(),
    target: nothing(),
    p99: nothing(),
    slo: 0,
  };
}

function note(history: ModelHistory, model: FeedModel | undefined): void {
  history.good.push(model?.good ?? null);
  history.goodShare.push(model === undefined ? null : goodShare(model));
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
