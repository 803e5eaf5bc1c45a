/**
 * Runs a plan under Poisson arrivals. Each fraction serves its models in turn, in batches as planned or smaller, and
 * drops early (Nexus §6.3; docs/algorithms.md, C6 and A2). Two fractions of an executor slow one another while both
 * run. Times in ms, rates in requests per ms.
 */
import { Prng } from "@tutti/units";

export interface RunItem {
  /** Number of the model for `factor`. */
  readonly model: number;
  readonly rate: number;
  readonly slo: number;
  /** Planned batch size: neighbours on the executor don't expect larger ones. */
  readonly batchSize: number;
  /** Latency in isolation, on the fraction that the model is on. */
  latency(batchSize: number): number;
}
export interface RunPart {
  readonly size: number;
  readonly items: readonly RunItem[];
}
/** An executor's fractions: one or two. */
export type RunExecutor = readonly RunPart[];

/** Slowdown of a batch that starts while the other fraction runs a batch. */
export type TrueFactor = (own: Running, other: Running) => number;
export interface Running {
  readonly model: number;
  readonly size: number;
}

export interface RunOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Factor on the planned rates. */
  readonly scale: number;
  readonly factor?: TrueFactor;
}
/** Request counts of one model. */
export interface RunCounts {
  readonly total: number;
  /** Dropped or late. */
  readonly bad: number;
}

/** Time at the beginning that isn't counted, while queues fill. */
const WARM_UP_MS = 1_000;

/** Runs a plan. Executors share nothing, so each is simulated by itself. @returns counts by model */
export function runPlan(executors: readonly RunExecutor[], options: RunOptions): ReadonlyMap<number, RunCounts> {
  const prng = new Prng(options.seed);
  const counts = new Map<number, { total: number; bad: number }>();
  for (const executor of executors) new ExecutorRun(executor, options, prng.fork(), counts).run();
  return counts;
}

class ItemRun {
  readonly item: RunItem;
  readonly #prng: Prng;
  readonly #rate: number;
  /** Waiting arrivals, from `head` on. */
  #queue: number[] = [];
  #head = 0;
  nextAt: number;

  constructor(item: RunItem, scale: number, prng: Prng) {
    this.item = item;
    this.#prng = prng;
    this.#rate = item.rate * scale;
    this.nextAt = this.#rate > 0 ? prng.nextExponential(this.#rate) : Infinity;
  }

  admit(now: number, end: number): void {
    while (this.nextAt <= now) {
      this.#queue.push(this.nextAt);
      const next = this.nextAt + this.#prng.nextExponential(this.#rate);
      this.nextAt = next > end ? Infinity : next;
    }
    if (this.#head < 1_024 || this.#head < this.#queue.length / 2) return;
    this.#queue = this.#queue.slice(this.#head);
    this.#head = 0;
  }
  get waiting(): number {
    return this.#queue.length - this.#head;
  }
  get oldest(): number {
    return this.#queue[this.#head]!;
  }
  shift(): number {
    return this.#queue[this.#head++]!;
  }
}

class PartRun {
  readonly size: number;
  readonly items: readonly ItemRun[];
  turn = 0;
  freeAt = 0;
  running: Running | undefined;

  constructor({ size, items }: RunPart, scale: number, prng: Prng) {
    this.size = size;
    this.items = items.map((item) => new ItemRun(item, scale, prng.fork()));
  }

  /** When the executor has something to do next; Infinity: never again. */
  get wakesAt(): number {
    if (this.items.some(({ waiting }) => waiting > 0)) return this.freeAt;
    return Math.max(
      this.freeAt,
      this.items.reduce((first, { nextAt }) => Math.min(first, nextAt), Infinity),
    );
  }
}

class ExecutorRun {
  readonly #parts: readonly PartRun[];
  readonly #end: number;
  readonly #factor: TrueFactor;
  readonly #counts: Map<number, { total: number; bad: number }>;

  constructor(
    executor: RunExecutor,
    { seconds, scale, factor }: RunOptions,
    prng: Prng,
    counts: Map<number, { total: number; bad: number }>,
  ) {
    this.#counts = counts;
    this.#parts = executor.map((part) => new PartRun(part, scale, prng.fork()));
    this.#end = WARM_UP_MS + 1_000 * seconds;
    this.#factor = factor ?? (() => 1);
  }

  run(): void {
    for (;;) {
      const next = this.#parts.reduce((first, part) => (part.wakesAt < first.wakesAt ? part : first), this.#parts[0]!);
      const now = next.wakesAt;
      if (now === Infinity) return;
      this.#serve(next, now);
    }
  }

  #serve(part: PartRun, now: number): void {
    for (const item of part.items) item.admit(now, this.#end);
    part.running = undefined;
    for (let k = 0; k < part.items.length; k++) {
      const place = (part.turn + k) % part.items.length;
      const own = part.items[place]!;
      const running = { model: own.item.model, size: part.size };
      const beside = this.#parts.find((other) => other !== part && other.freeAt > now)?.running;
      const factor = beside === undefined ? 1 : this.#factor(running, beside);
      const batchSize = this.#dropEarly(own, now, factor);
      if (batchSize === 0) continue;
      part.freeAt = now + own.item.latency(batchSize) * factor;
      part.running = running;
      part.turn = place + 1;
      for (let i = 0; i < batchSize; i++) this.#count(own.item, own.shift(), part.freeAt);
      return;
    }
    part.freeAt = now;
  }

  /** Early drop (A2) with the planned batch as its window. @returns how many are served; 0: none is left */
  #dropEarly(own: ItemRun, now: number, factor: number): number {
    while (own.waiting > 0) {
      const window = Math.min(own.item.batchSize, own.waiting);
      if (now + own.item.latency(window) * factor <= own.oldest + own.item.slo) return window;
      this.#count(own.item, own.shift(), Infinity);
    }
    return 0;
  }

  #count({ model, slo }: RunItem, arrivedAt: number, endsAt: number): void {
    if (arrivedAt < WARM_UP_MS) return;
    let counts = this.#counts.get(model);
    if (counts === undefined) this.#counts.set(model, (counts = { total: 0, bad: 0 }));
    counts.total++;
    if (endsAt > arrivedAt + slo + 1e-9) counts.bad++;
  }
}
