import type { DataHandlers } from "@tutti/ports/pull";

/** Handlers of a data plane that can stall: it takes calls meanwhile, and performs them when it goes on. */
export class SwitchedHandlers implements DataHandlers {
  readonly #handlers: DataHandlers;
  /** Undefined: it works. */
  #missed: (() => void)[] | undefined;

  constructor(handlers: DataHandlers) {
    this.#handlers = handlers;
  }

  readonly onPull: DataHandlers["onPull"] = (pull, reply) => this.#perform(() => this.#handlers.onPull(pull, reply));
  readonly onResults: DataHandlers["onResults"] = (results) => this.#perform(() => this.#handlers.onResults(results));

  stall(): void {
    this.#missed ??= [];
  }
  resume(): void {
    const missed = this.#missed ?? [];
    this.#missed = undefined;
    for (const run of missed) run();
  }

  #perform(run: () => void): void {
    if (this.#missed === undefined) run();
    else this.#missed.push(run);
  }
}
