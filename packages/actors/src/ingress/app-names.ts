import { APPS_TOLD_MAX, AppsNamed } from "@tutti/protocol";
import type { ActorRuntime } from "../actor-runtime.ts";

/**
 * Names of the applications that asked for something since they were told last: everywhere behind an ingress they are
 * numbers.
 */
export class AppNames {
  readonly #runtime: ActorRuntime;
  readonly #asked = new Set<string>();

  constructor(runtime: ActorRuntime) {
    this.#runtime = runtime;
  }

  note(app: string): void {
    if (this.#asked.size < APPS_TOLD_MAX) this.#asked.add(app);
  }

  tell(): void {
    if (this.#asked.size === 0) return;
    this.#runtime.broadcast("profiler", AppsNamed, { apps: [...this.#asked] });
    this.#asked.clear();
  }
}
