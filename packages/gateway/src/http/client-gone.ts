import type { ServerResponse } from "node:http";
import type { CancelSignal } from "@tutti/client";

/**
 * Whether the client of a request disconnected before its answer. An AbortController costs as much as reading a small
 * body, so it is made only where one is needed.
 */
export class ClientGone implements CancelSignal {
  readonly #listeners = new Set<() => void>();
  #signal: AbortController | undefined;
  aborted = false;
  readonly reason = "the client went away";

  constructor(response: ServerResponse) {
    response.once("close", () => {
      if (response.writableFinished) return;
      this.aborted = true;
      this.#signal?.abort();
      for (const listener of [...this.#listeners]) listener();
    });
  }

  asSignal(): AbortSignal {
    this.#signal ??= new AbortController();
    if (this.aborted) this.#signal.abort();
    return this.#signal.signal;
  }

  addEventListener(_: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }
  removeEventListener(_: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }
}
