import { APPS_TOLD_MAX, AppsNamed } from "@tutti/protocol";
import type { ActorRuntime } from "@tutti/actors/runtime";

/**
 * Collects the names of applications that have sent requests since the last report. Behind an ingress applications are
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
