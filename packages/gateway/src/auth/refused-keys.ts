import type { Logger } from "@tutti/ports/telemetry";

/** Interval of the log lines, each with the number of refused keys: guessing keys does not fill the log. */
const TOLD_EVERY_MS = 1_000;

/** Logs refused keys, so that an operator can notice guesses. */
export class RefusedKeys {
  readonly #log: Logger;
  #toldAt = -Infinity;
  #refused = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param from - the address of the last refused client. @param now - ms */
  note(from: string, now: number = performance.now()): void {
    this.#refused++;
    if (now - this.#toldAt < TOLD_EVERY_MS) return;
    this.#toldAt = now;
    this.#log.warn({ audit: "authentication", from, refused: this.#refused, outcome: "refused" }, "keys were refused");
    this.#refused = 0;
  }
}
