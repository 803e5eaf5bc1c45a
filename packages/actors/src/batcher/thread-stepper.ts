/** Steps ModelThreads, and wakes those that are due. */
import type { Alarm, Clock } from "@tutti/ports/clock";
import { type ModelEvent, step } from "@tutti/scheduling";
import { type Instant, NEVER } from "@tutti/units";
import type { Dispatcher } from "./dispatcher.ts";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

export interface ThreadStepperOptions {
  readonly clock: Clock;
  readonly threads: ThreadTable;
  readonly dispatcher: Dispatcher;
  readonly onStep: (entry: ThreadEntry) => void;
}

export class ThreadStepper {
  readonly #options: ThreadStepperOptions;
  readonly #alarm: Alarm;
  #armedFor: Instant = NEVER;

  constructor(options: ThreadStepperOptions) {
    this.#options = options;
    this.#alarm = options.clock.alarm(() => this.#onAlarm());
  }

  step(entry: ThreadEntry, event: ModelEvent): void {
    this.#stepNow(entry, event);
    this.arm();
  }

  /** Does nothing where the thread has ended. */
  stepById(id: ThreadEntry["id"], event: (at: Instant) => ModelEvent): void {
    const entry = this.#options.threads.get(id);
    if (entry !== undefined) this.step(entry, event(this.#options.clock.now()));
  }

  stepAll(event: (at: Instant) => ModelEvent): void {
    for (const entry of this.#options.threads.values()) this.step(entry, event(this.#options.clock.now()));
  }

  /** Sets the alarm for the thread that is due first. */
  arm(): void {
    const next = this.#options.threads.nextWakeAt;
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }

  close(): void {
    this.#alarm.clear();
  }

  #stepNow(entry: ThreadEntry, event: ModelEvent): void {
    step(entry.core, event, this.#options.dispatcher);
    this.#options.onStep(entry);
    this.#options.threads.rearm(entry);
  }

  #onAlarm(): void {
    this.#armedFor = NEVER;
    const now = this.#options.clock.now();
    const { threads } = this.#options;
    for (let entry = threads.due(now); entry !== undefined; entry = threads.due(now))
      this.#stepNow(entry, { kind: "clock-reached", at: now });
    this.arm();
  }
}
