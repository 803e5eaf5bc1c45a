/**
 * Sleepers wake the main thread shortly before an alarm is due; the clock covers the rest. A wake may come early (the
 * clock checks again), but it must come.
 */
import { Worker } from "node:worker_threads";
import { nodeTimeSources } from "./wall-offset.ts";

export interface Sleeper {
  /** Replaces the previous setting. `target`: monotonic microseconds. */
  wakeAt(target: number): void;
  /** Cancels the setting. */
  sleep(): void;
  close(): void;
}

/**
 * How long before its target the worker posts its wake: a wake takes about 60 µs to arrive (docs/architecture.md, 8).
 */
export const LEAD_US = 110;
/** A worker that is due within this time may be awake already, so it must be notified of a setting. */
const AWAKE_US = 50;
/** 32-bit differences would take targets further away for past ones; one needless wake in 20 minutes costs nothing. */
const FAR_US = 1_200_000_000;

const SEQ = 0;
const TARGET = 1;
const ARMED = 2;

export interface WorkerSleeperOptions {
  readonly onWake: () => void;
  readonly onReady: () => void;
  /** The worker ended by itself; the sleeper does nothing any more. */
  readonly onDeath: (reason: string) => void;
}

/**
 * One thread in Atomics.wait. A setting costs one store, or a store and a futex wake if it precedes the worker's wake.
 */
export class WorkerSleeper implements Sleeper {
  readonly #shared = new Int32Array(new SharedArrayBuffer(12));
  readonly #worker: Worker;
  /** The worker certainly sleeps until then, unless notified: monotonic µs. */
  #asleepUntil = Infinity;
  #armed = false;
  #closed = false;

  constructor({ onWake, onReady, onDeath }: WorkerSleeperOptions) {
    this.#worker = new Worker(new URL("./alarm-worker.js", import.meta.url), {
      workerData: this.#shared,
      execArgv: [],
      name: "tutti-alarm",
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.unref();
    this.#worker.on("message", (message) => {
      if (this.#closed) return;
      if (message === "ready") return onReady();
      onWake();
    });
    this.#worker.on("error", (error) => this.#end(() => onDeath(String(error))));
    this.#worker.on("exit", (code) => this.#end(() => onDeath(`exit code ${code}`)));
  }

  wakeAt(target: number): void {
    const wake = Math.min(target - LEAD_US, nodeTimeSources.monotonicUs() + FAR_US);
    Atomics.store(this.#shared, TARGET, wake | 0);
    if (!this.#armed) {
      Atomics.store(this.#shared, ARMED, 1);
      this.#armed = true;
    }
    // The counter is read after the stores: if the worker still sleeps by now, it will read them when it wakes.
    if (wake >= this.#asleepUntil && nodeTimeSources.monotonicUs() < this.#asleepUntil - AWAKE_US) return;
    this.#asleepUntil = wake;
    Atomics.add(this.#shared, SEQ, 1);
    Atomics.notify(this.#shared, SEQ);
  }

  /** Cancels without a wake: at its old target the worker reads that no alarm is set, and sleeps without end. */
  sleep(): void {
    this.#armed = false;
    Atomics.store(this.#shared, ARMED, 0);
  }

  close(): void {
    this.#end(() => undefined);
    void this.#worker.terminate();
  }

  #end(then: () => void): void {
    if (this.#closed) return;
    this.#closed = true;
    then();
  }
}

/** Time before an alarm from which the worker takes over; a timer of the event loop is late by less. */
const NEAR_US = 3_000;

/**
 * The event loop's own timer until an alarm is near, and the worker from then on. Most alarms are deadlines that are
 * replaced long before they are due: setting a timer costs less than waking a thread for each.
 */
export class HybridSleeper implements Sleeper {
  readonly #precise: WorkerSleeper;
  readonly #onWake: () => void;
  #timeout: NodeJS.Timeout | undefined;
  /** Time at which it fires: monotonic µs. */
  #timeoutAt = 0;

  constructor(precise: WorkerSleeper, onWake: () => void) {
    this.#precise = precise;
    this.#onWake = onWake;
  }

  wakeAt(target: number): void {
    const now = nodeTimeSources.monotonicUs();
    if (target - now <= NEAR_US) {
      this.#clear();
      return this.#precise.wakeAt(target);
    }
    this.#precise.sleep();
    const waitMs = Math.floor((Math.min(target - now, FAR_US) - NEAR_US) / 1_000) + 1;
    const firesAt = now + 1_000 * waitMs;
    // A timer that fires too early costs less than setting it anew for each alarm.
    if (this.#timeout !== undefined && this.#timeoutAt <= firesAt) return;
    this.#clear();
    this.#timeoutAt = firesAt;
    this.#timeout = setTimeout(() => {
      this.#timeout = undefined;
      this.#onWake();
    }, waitMs).unref();
  }

  sleep(): void {
    this.#clear();
    this.#precise.sleep();
  }
  close(): void {
    this.#clear();
    this.#precise.close();
  }

  #clear(): void {
    clearTimeout(this.#timeout);
    this.#timeout = undefined;
  }
}

/**
 * The event loop's own timers, which miss by half a millisecond. They serve the first milliseconds, until the worker
 * runs, and the case that it can't. It wakes up to 2 ms early and then in every turn of the loop.
 */
export class TimeoutSleeper implements Sleeper {
  readonly #onWake: () => void;
  readonly #monotonicUs: () => number;
  #timeout: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;

  constructor(onWake: () => void, monotonicUs: () => number) {
    this.#onWake = onWake;
    this.#monotonicUs = monotonicUs;
  }
  wakeAt(target: number): void {
    this.sleep();
    const wait = Math.floor(Math.min(target - this.#monotonicUs(), FAR_US) / 1e3) - 1;
    if (wait >= 1) this.#timeout = setTimeout(this.#onWake, wait).unref();
    else this.#immediate = setImmediate(this.#onWake);
  }
  sleep(): void {
    clearTimeout(this.#timeout);
    clearImmediate(this.#immediate);
  }
  close(): void {
    this.sleep();
  }
}
