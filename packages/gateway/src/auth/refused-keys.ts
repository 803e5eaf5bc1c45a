import type { Logger } from "@tutti/ports/telemetry";

/** Who guesses keys fills no log: one line in so long, with how many there were. */
const TOLD_EVERY_MS = 1_000;

/** A line in the log for keys that were refused, for whoever looks out for guesses. */
export class RefusedKeys {
  readonly #log: Logger;
  #toldAt = -Infinity;
  #refused = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param from - the address of the last one. @param now - ms */
  note(from: string, now: number = performance.now()): void {
    this.#refused++;
    if (now - this.#toldAt < TOLD_EVERY_MS) return;
    this.#toldAt = now;
    this.#log.warn({ audit: "authentication", from, refused: this.#refused, outcome: "refused" }, "keys were refused");
    this.#refused = 0;
  }
}
