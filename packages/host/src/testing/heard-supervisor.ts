import { Supervisor, type SupervisorEvents } from "../up/supervisor.ts";

/** A supervisor of real processes that records its events in order. */
export class HeardSupervisor {
  readonly told: string[] = [];
  readonly supervisor: Supervisor;
  #hear: () => void = () => undefined;

  /** @param words - texts to record for each event; undefined: none */
  constructor(words: {
    readonly [Event in keyof SupervisorEvents]: (...args: Parameters<SupervisorEvents[Event]>) => string | undefined;
  }) {
    const note = (text: string | undefined): void => {
      if (text !== undefined) this.told.push(text);
      this.#hear();
    };
    this.supervisor = new Supervisor({
      onReady: (...args) => note(words.onReady(...args)),
      onLine: (...args) => note(words.onLine(...args)),
      onExit: (...args) => note(words.onExit(...args)),
    });
  }

  /** Checks again after each recorded event. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => (this.#hear = resolve));
  }
}

/** How long a process may take to be ready, and to end. */
export const PROCESS_TIMES = { readyMs: 20_000, graceMs: 20_000, report: () => undefined } as const;
