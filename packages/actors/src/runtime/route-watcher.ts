import { BUCKET, MODELS_MAX, type Route, isRoute, routeKeys } from "@tutti/protocol";
import type { Entry, Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { EntryReader } from "./entry-reader.ts";

export interface KnownRoute {
  readonly route: Route;
  /** Revision of the entry, which a change must name (compare-and-set). */
  readonly revision: number;
}

/**
 * Mirrors the routes, which share requests between versions of models, from the bucket of plans. An unreadable entry is
 * reported and ignored: the last readable one stays in force (T8).
 */
export class RouteWatcher {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #reader: EntryReader;
  readonly #onChange: (name: string) => void;
  readonly #routes = new Map<string, KnownRoute>();
  #watch: { stop(): void } | undefined;
  #isReady = false;

  /** @param onChange - not called for routes that are present when the watcher is opened */
  constructor(store: Store, log: Logger, onChange: (name: string) => void = () => undefined) {
    this.#store = store;
    this.#log = log;
    this.#reader = new EntryReader(log);
    this.#onChange = onChange;
  }

  /** `ready` is called once all present entries have been delivered. */
  open(ready: () => void): void {
    this.#watch = this.#store.watch(BUCKET.plan, routeKeys.prefix, {
      onEntry: (entry) => this.#onEntry(entry),
      onDelete: (key) => this.#take(key.slice(routeKeys.prefix.length), undefined),
      onReady: () => {
        if (this.#isReady) return;
        this.#isReady = true;
        ready();
      },
      onFailure: ({ failure }) =>
        this.#log.warn({ bucket: BUCKET.plan, failure }, "watching the store failed; it is tried again"),
    });
  }
  close(): void {
    this.#watch?.stop();
  }

  get size(): number {
    return this.#routes.size;
  }
  get(name: string): Route | undefined {
    return this.#routes.get(name)?.route;
  }
  known(): IterableIterator<KnownRoute> {
    return this.#routes.values();
  }

  #onEntry(entry: Entry): void {
    const { key, revision } = entry;
    if (!key.startsWith(routeKeys.prefix)) return;
    const name = key.slice(routeKeys.prefix.length);
    const route = this.#reader.read(isRoute, entry, (read) => read.name === name);
    if (route === undefined) return;
    // There are as many routes as there may be models (T7).
    if (!this.#routes.has(name) && this.#routes.size >= MODELS_MAX)
      return this.#log.warn({ key }, "ignored a route: there are as many as may be models (MODELS_MAX)");
    this.#take(name, { route, revision });
  }

  #take(name: string, known: KnownRoute | undefined): void {
    if (known === undefined) this.#routes.delete(name);
    else this.#routes.set(name, known);
    if (this.#isReady) this.#onChange(name);
  }
}
