import { APPS_TOLD_MAX, AppsNamed } from "@tutti/protocol";
import type { Station } from "../station.ts";

/**
 * Names of the applications that asked for something since they were told last: everywhere behind an ingress they are
 * numbers.
 */
export class AppNames {
  readonly #station: Station;
  readonly #asked = new Set<string>();

  constructor(station: Station) {
    this.#station = station;
  }

  note(app: string): void {
    if (this.#asked.size < APPS_TOLD_MAX) this.#asked.add(app);
  }

  tell(): void {
    if (this.#asked.size === 0) return;
    this.#station.broadcast("profiler", AppsNamed, { apps: [...this.#asked] });
    this.#asked.clear();
  }
}
