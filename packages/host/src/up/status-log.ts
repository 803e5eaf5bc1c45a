/**
 * Decides which status lines of `tutti up` go to a file. A line a second fills logs, and says nothing new most of the
 * time: one is due when accelerators, models or kinds of errors change, and else once a minute and at the end. It
 * counts everything since the line before.
 */
import type { GpuLoad, Reading, ThreadLoad } from "./status-board.ts";

/** Longest time between two lines. */
const LINE_EVERY_S = 60;

export class StatusLog {
  #sum: Reading | undefined;
  #parts = "";
  /** Kinds of errors that the lines since the last full minute have told. */
  #told: ReadonlySet<string> = new Set();

  /** @returns the reading since the last line, if a line is due */
  add(heard: Reading): Reading | undefined {
    const reading = merged(heard);
    const errors = errorsOf(reading);
    const sum = this.#sum === undefined ? reading : joined(this.#sum, reading);
    const parts = partsOf(reading);
    // The same errors come and go under load: only a new kind is news.
    const hasNews = parts !== this.#parts || [...errors].some((kind) => !this.#told.has(kind));
    if (this.#parts !== "" && !hasNews && sum.seconds < LINE_EVERY_S) {
      this.#sum = sum;
      return undefined;
    }
    const isPeriodic = sum.seconds >= LINE_EVERY_S;
    this.#told = isPeriodic ? errorsOf(sum) : new Set([...this.#told, ...errors]);
    this.#parts = parts;
    this.#sum = undefined;
    return sum;
  }

  /** @returns the reading since the last line, when no other follows; undefined: there was none */
  end(): Reading | undefined {
    const sum = this.#sum;
    this.#sum = undefined;
    return sum;
  }
}

const errorsOf = ({ reasons, late }: Reading): ReadonlySet<string> =>
  new Set([...Object.keys(reasons), ...(late > 0 ? ["late"] : [])]);

const partsOf = ({ gpus, threads }: Reading): string =>
  JSON.stringify([gpus.map(({ gpu }) => String(gpu)).sort(), threads.map(({ name }) => name).sort()]);

/**
 * The reading with each accelerator and model once. A restarted process's accelerators are reported twice for a while,
 * and a model that moves by two batchers.
 */
const merged = (reading: Reading): Reading => ({
  ...reading,
  gpus: mergedBy(
    ({ gpu }) => gpu,
    reading.gpus,
    (first, other) => ({
      ...addedCounts(first, other),
      busyUs: first.busyUs + other.busyUs,
      busy: Math.min(1, first.busy + other.busy),
    }),
  ),
  threads: mergedBy(({ name }) => name, reading.threads, addedThreads),
});

function mergedBy<T>(idOf: (one: T) => number | string, all: readonly T[], add: (first: T, other: T) => T): T[] {
  const byId = new Map<number | string, T>();
  for (const one of all) {
    const first = byId.get(idOf(one));
    byId.set(idOf(one), first === undefined ? one : add(first, one));
  }
  return [...byId.values()];
}

/** Two readings in a row as one; accelerators and models are those of the later one. */
function joined(before: Reading, now: Reading): Reading {
  const seconds = before.seconds + now.seconds;
  const add = (name: "requests" | "inTime" | "late" | "refused" | "batches" | "items"): number =>
    before[name] + now[name];
  const reasons = { ...before.reasons };
  for (const [code, times] of Object.entries(now.reasons)) reasons[code] = (reasons[code] ?? 0) + times;
  const [was, is] = [before, now].map(({ inTime, late }) => inTime + late) as [number, number];
  return {
    seconds,
    ...{ requests: add("requests"), inTime: add("inTime"), late: add("late"), refused: add("refused"), reasons },
    meanLatencyUs: was + is === 0 ? 0 : (before.meanLatencyUs * was + now.meanLatencyUs * is) / (was + is),
    ...{ batches: add("batches"), items: add("items") },
    gpus: now.gpus.map((gpu) =>
      joinedGpu(
        before.gpus.find((other) => other.gpu === gpu.gpu),
        gpu,
        seconds,
      ),
    ),
    threads: now.threads.map((thread) =>
      joinedThread(
        before.threads.find(({ name }) => name === thread.name),
        thread,
      ),
    ),
  };
}

function joinedGpu(before: GpuLoad | undefined, now: GpuLoad, seconds: number): GpuLoad {
  if (before === undefined) return now;
  const busyUs = before.busyUs + now.busyUs;
  return { ...addedCounts(now, before), busyUs, busy: Math.min(1, busyUs / (1e6 * seconds)) };
}

const joinedThread = (before: ThreadLoad | undefined, now: ThreadLoad): ThreadLoad =>
  before === undefined ? now : { ...addedThreads(now, before), queued: now.queued };

/** Delays are those of the first. */
const addedThreads = (first: ThreadLoad, other: ThreadLoad): ThreadLoad => ({
  ...addedCounts(first, other),
  queued: first.queued + other.queued,
  lateStarts: first.lateStarts + other.lateStarts,
  lateAnswers: first.lateAnswers + other.lateAnswers,
});

const addedCounts = <T extends { readonly batches: number; readonly items: number }>(first: T, other: T): T => ({
  ...first,
  batches: first.batches + other.batches,
  items: first.items + other.items,
});
