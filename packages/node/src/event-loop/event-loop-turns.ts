/**
 * Lengths of the turns of this process's event loop, and the share of garbage collection in them. What comes during a
 * turn waits for its end.
 *
 * A turn counts from one check phase of the loop to the next, without the time in which the loop waited for something
 * to come. The probe is an immediate that is not referenced: it runs in every turn, and lets the loop wait all the
 * same. It costs 0.2 µs a turn, and nothing between turns.
 */
import { PerformanceObserver, performance } from "node:perf_hooks";
import { DurationHistogram } from "./duration-histogram.ts";

export interface Turns {
  readonly p50Us: number;
  readonly p99Us: number;
  readonly p999Us: number;
  readonly maxUs: number;
  /** Share of the turns' time that was garbage collection. */
  readonly gcShare: number;
}

/** Turns of some time. */
class TurnSpan {
  readonly lengths = new DurationHistogram();
  maxUs = 0;
  busyUs = 0;
  gcUs = 0;

  record(us: number): void {
    this.lengths.record(us);
    this.busyUs += us;
    if (us > this.maxUs) this.maxUs = us;
  }

  add(other: TurnSpan): void {
    this.lengths.add(other.lengths);
    this.maxUs = Math.max(this.maxUs, other.maxUs);
    this.busyUs += other.busyUs;
    this.gcUs += other.gcUs;
  }
}

const SPAN_MS = 10_000;
/** The span that fills now, and those of a whole minute before it. */
const SPANS = 7;

export class EventLoopTurns {
  readonly #collections: PerformanceObserver;
  #sinceRead = new TurnSpan();
  readonly #minute: TurnSpan[] = [new TurnSpan()];
  #nextSpanMs: number;
  #checkedMs: number;
  #idleMs: number;
  #probing: NodeJS.Immediate | undefined;

  constructor() {
    this.#checkedMs = performance.now();
    this.#idleMs = performance.nodeTiming.idleTime;
    this.#nextSpanMs = this.#checkedMs + SPAN_MS;
    this.#collections = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) this.#sinceRead.gcUs += 1_000 * duration;
    });
    this.#collections.observe({ entryTypes: ["gc"] });
    this.#probe();
  }

  /** Turns since the last reading, and those of the last minute. Read it more often than once in ten seconds. */
  read(): { readonly sinceRead: Turns; readonly minute: Turns } {
    const now = performance.now();
    if (now >= this.#nextSpanMs) {
      this.#nextSpanMs = now + SPAN_MS;
      this.#minute.unshift(new TurnSpan());
      this.#minute.length = Math.min(this.#minute.length, SPANS);
    }
    const latest = this.#sinceRead;
    this.#sinceRead = new TurnSpan();
    this.#minute[0]!.add(latest);
    return { sinceRead: turnsOf([latest]), minute: turnsOf(this.#minute) };
  }

  stop(): void {
    clearImmediate(this.#probing);
    this.#collections.disconnect();
  }

  readonly #probe = (): void => {
    const now = performance.now();
    const idle = performance.nodeTiming.idleTime;
    if (this.#probing !== undefined) this.#sinceRead.record(1_000 * (now - this.#checkedMs - (idle - this.#idleMs)));
    this.#checkedMs = now;
    this.#idleMs = idle;
    this.#probing = setImmediate(this.#probe).unref();
  };
}

function turnsOf(spans: readonly TurnSpan[]): Turns {
  const lengths = spans.map((span) => span.lengths);
  const maxUs = Math.max(...spans.map((span) => span.maxUs));
  const busyUs = spans.reduce((sum, span) => sum + span.busyUs, 0);
  const gcUs = spans.reduce((sum, span) => sum + span.gcUs, 0);
  // A bucket's upper edge may lie above the longest turn.
  const percentile = (q: number): number => Math.min(maxUs, DurationHistogram.percentile(lengths, q));
  const [p50Us, p99Us, p999Us] = [percentile(0.5), percentile(0.99), percentile(0.999)];
  return { p50Us, p99Us, p999Us, maxUs, gcShare: busyUs === 0 ? 0 : Math.min(1, gcUs / busyUs) };
}
