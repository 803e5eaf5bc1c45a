/**
 * An open loop of requests through the TypeScript client, with the outcome and time of each. It is for tests that break
 * the network under load.
 */
import type { Tutti } from "@tutti/client";

export interface Settled {
  readonly sentMs: number;
  readonly settledMs: number;
  /** `ok`, or the code of the error. */
  readonly status: string;
}

const TICK_MS = 5;
/**
 * Time beyond the SLO after which an answer is late. The client takes its deadline and 100 ms (docs/architecture.md,
 * T1); the rest is room for a busy machine.
 */
const LATE_MS = 1_000;

export interface SteadyLoadOptions {
  readonly model: string;
  readonly perSecond: number;
  readonly sloMs: number;
  /** Input row. Default: a single number. */
  readonly row?: readonly number[];
}

export class SteadyLoad {
  readonly settled: Settled[] = [];
  readonly sloMs: number;
  readonly #ask: () => Promise<unknown>;
  readonly #perMs: number;
  readonly #waiting = new Set<() => void>();
  #sent = 0;
  #dueMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Tutti, options: SteadyLoadOptions) {
    this.sloMs = options.sloMs;
    this.#perMs = options.perSecond / 1_000;
    const { model, sloMs, row = [1] } = options;
    this.#ask = () => client.infer(model, { x: [[...row]] }, { slo: sloMs });
  }

  start(): void {
    this.#dueMs = performance.now();
    this.#timer = setInterval(() => this.#sendDue(), TICK_MS);
  }

  /** Ends the load and waits for everything under way; rejects when something hangs. */
  async stop(): Promise<readonly Settled[]> {
    clearInterval(this.#timer);
    const limit = performance.now() + this.sloMs + LATE_MS;
    while (this.settled.length < this.#sent) {
      if (performance.now() > limit) throw new Error(`${this.#sent - this.settled.length} requests hang`);
      await this.#change(limit);
    }
    return this.settled;
  }

  /** The first `count` requests sent at or after `sinceMs` that ended with this status; past or to come. */
  async until(status: string, sinceMs: number, withinMs: number, count = 1): Promise<readonly Settled[]> {
    const limit = performance.now() + withinMs;
    for (;;) {
      const found = this.settled.filter((one) => one.status === status && one.sentMs >= sinceMs);
      if (found.length >= count) return found;
      if (performance.now() > limit)
        throw new Error(`not ${count} times ${status} in ${withinMs} ms: ${this.summary()}`);
      await this.#change(limit);
    }
  }

  /** Share of the requests sent in this interval that ended with `ok`. */
  okShare(fromMs: number, toMs: number): number {
    const sent = this.settled.filter(({ sentMs }) => sentMs >= fromMs && sentMs < toMs);
    return sent.filter(({ status }) => status === "ok").length / sent.length;
  }

  /** Numbers of requests by status, as JSON. */
  summary(sinceMs = 0): string {
    const counts: Record<string, number> = {};
    for (const { status, sentMs } of this.settled) if (sentMs >= sinceMs) counts[status] = (counts[status] ?? 0) + 1;
    return JSON.stringify(counts);
  }

  /** Requests that took longer than the client promises. */
  late(): readonly Settled[] {
    return this.settled.filter(({ sentMs, settledMs }) => settledMs - sentMs > this.sloMs + LATE_MS);
  }

  #sendDue(): void {
    for (; this.#dueMs <= performance.now(); this.#dueMs += 1 / this.#perMs) {
      this.#sent++;
      const sentMs = performance.now();
      const settle = (status: string): void => {
        this.settled.push({ sentMs, settledMs: performance.now(), status });
        for (const look of this.#waiting) look();
      };
      this.#ask().then(
        () => settle("ok"),
        (error: { code?: string }) => settle(error.code ?? String(error)),
      );
    }
  }

  #change(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.max(1, limitMs - performance.now()));
      this.#waiting.add(done);
    });
  }
}
