import { Supervisor, type SupervisorEvents } from "../up/supervisor.ts";

/** A supervisor of real processes, and what it told, in order. */
export class HeardSupervisor {
  readonly told: string[] = [];
  readonly supervisor: Supervisor;
  #hear: () => void = () => undefined;

  /** @param words - for each event what is noted; undefined: nothing */
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

  /** Looks again whenever something is told. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => (this.#hear = resolve));
  }
}

/** How long a process may take to be ready, and to end. */
export const PROCESS_TIMES = { readyMs: 20_000, graceMs: 20_000, report: () => undefined } as const;
