/**
 * State of the page: the last state, the bars of the last minute, the history of the last minutes. All of it is bounded
 * here or in the history (T7).
 *
 *   STORE-1. Of bars at most `BARS_KEPT`, of refusals `REFUSALS_KEPT`, of operations `OPERATIONS_KEPT`; the oldest go
 *            first.
 */
import type {
  FeedBatches,
  FeedEvents,
  FeedHello,
  FeedHistory,
  FeedOperation,
  FeedPlan,
  FeedRefusal,
  FeedState,
} from "../src/feed.ts";
import { BATCH_ROW_WIDTH } from "../src/feed.ts";
import { History } from "../src/history.ts";

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
export const REFUSALS_KEPT = 200;
export const OPERATIONS_KEPT = 50;

/** Fields that a gateway of an earlier release doesn't send. */
const BEFORE_JOBS = { jobs: [], jobsLeft: 0 };
const BEFORE_IDS = { app: "", id: "", trace: "" };

export class LiveStore {
  hello: FeedHello | undefined;
  state: FeedState | undefined;
  plan: FeedPlan | undefined;
  bars: Bar[] = [];
  /** Batches that the feed left out. */
  barsLeft = 0;
  refusals: FeedRefusal[] = [];
  operations: FeedOperation[] = [];
  readonly history = new History();
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
      case "history":
        this.history.restore(value as FeedHistory);
        break;
      case "historyModel":
        this.history.restoreModel(value as FeedEvents["historyModel"]);
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
        this.#onRefusals(value as FeedRefusal[]);
        break;
      case "operation":
        this.operations = [...this.operations, value as FeedOperation].slice(-OPERATIONS_KEPT);
        break;
    }
    this.#changed();
  }

  #onRefusals(refusals: readonly FeedRefusal[]): void {
    const fresh = refusals.map((refusal) => ({ ...BEFORE_IDS, ...refusal }));
    this.refusals = [...this.refusals, ...fresh].slice(-REFUSALS_KEPT);
  }

  #onState(state: FeedState, nowMs: number): void {
    this.state = { ...BEFORE_JOBS, ...state };
    this.offset = state.at - nowMs;
    this.history.note(Math.floor(state.at / 1_000), state.models);
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
