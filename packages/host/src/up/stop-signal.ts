/** Ctrl-C, SIGTERM or a closed terminal: the first asks for an orderly end, the second for an immediate one. */
export class StopSignal {
  readonly #controller = new AbortController();
  readonly #onSignal: (signal: NodeJS.Signals) => void;

  constructor(onSecond: () => void) {
    this.#onSignal = (signal) => {
      if (this.#controller.signal.aborted) onSecond();
      else this.#controller.abort(signal);
    };
    for (const name of SIGNALS) process.on(name, this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Requests the orderly end from inside. */
  request(): void {
    this.#controller.abort();
  }

  /** Settles as `promise` does, or with undefined as soon as the end is requested. */
  orUntil<Result>(promise: Promise<Result>): Promise<Result | undefined> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const onAbort = (): void => resolve(undefined);
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    });
  }

  release(): void {
    for (const name of SIGNALS) process.off(name, this.#onSignal);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
