import type { Entry, Files, Revision, Store, StoreFailure, Watcher } from "./store.ts";

export interface InMemoryStoreOptions {
  /**
   * Runs an answer or a watcher's call later, in order. A simulator delays here; a store never reorders. Default:
   * microtasks.
   */
  readonly deliver?: (run: () => void) => void;
  /** Receives the error of a callback that threw. Default: the error escapes from the callback's own task. */
  readonly onError?: (error: unknown) => void;
}

interface Row {
  readonly key: string;
  /** The stored bytes; undefined: deleted at `revision`. */
  readonly value: Uint8Array | undefined;
  readonly revision: number;
}

interface Bucket {
  revision: number;
  /** Rows in order of revision: a row that changes is taken out and put in again at the end. */
  readonly rows: Map<string, Row>;
  readonly watches: Set<{ readonly prefix: string; readonly watcher: Watcher; live: boolean }>;
}

/**
 * Buckets in memory, shared by all holders of the object. With `available = false` it answers only failures, as a
 * cluster without a stream leader does; watches then stay silent and catch up afterwards.
 */
export class InMemoryStore implements Store {
  readonly files: Files;
  readonly #deliver: (run: () => void) => void;
  readonly #buckets = new Map<string, Bucket>();
  readonly #files = new Map<string, Uint8Array>();
  #available = true;
  #held: (() => void)[] = [];

  constructor(options: InMemoryStoreOptions = {}) {
    const deliver = options.deliver ?? ((run) => queueMicrotask(run));
    const onError = options.onError;
    this.#deliver = (run) =>
      deliver(() => {
        if (onError === undefined) return run();
        try {
          run();
        } catch (error) {
          onError(error);
        }
      });
    this.files = {
      put: (name, bytes, done) => {
        const copy = new Uint8Array(bytes); // Buffer.slice would share it
        this.#answer(done, () => (this.#files.set(name, copy), "stored" as const));
      },
      get: (name, done) =>
        this.#answer(done, () => {
          const bytes = this.#files.get(name);
          return bytes === undefined ? ("absent" as const) : { bytes: bytes.slice() };
        }),
      delete: (name, done) => this.#answer(done, () => (this.#files.delete(name), "deleted" as const)),
    };
  }

  get available(): boolean {
    return this.#available;
  }
  set available(available: boolean) {
    this.#available = available;
    if (!available) return;
    const held = this.#held;
    this.#held = [];
    for (const run of held) this.#deliver(run);
  }

  get(bucket: string, key: string, done: (result: Entry | "absent" | StoreFailure) => void): void {
    this.#answer(done, () => {
      const row = this.#bucket(bucket).rows.get(key);
      return row?.value === undefined ? ("absent" as const) : entryOf(row, row.value);
    });
  }

  put(bucket: string, key: string, value: Uint8Array, done: (result: Revision | StoreFailure) => void): void {
    const copy = new Uint8Array(value);
    this.#answer(done, () => this.#write(bucket, key, copy));
  }

  update(
    bucket: string,
    key: string,
    value: Uint8Array,
    revision: number,
    done: (result: Revision | "conflict" | StoreFailure) => void,
  ): void {
    const copy = new Uint8Array(value);
    this.#answer(done, () => {
      const row = this.#bucket(bucket).rows.get(key);
      const fits = revision === 0 ? row?.value === undefined : row?.revision === revision;
      return fits ? this.#write(bucket, key, copy) : ("conflict" as const);
    });
  }

  delete(bucket: string, key: string, done: (result: "deleted" | StoreFailure) => void): void {
    this.#answer(done, () => {
      this.#write(bucket, key, undefined);
      return "deleted" as const;
    });
  }

  watch(bucketName: string, prefix: string, watcher: Watcher): { stop(): void } {
    const bucket = this.#bucket(bucketName);
    const watch = { prefix, watcher, live: true };
    bucket.watches.add(watch);
    for (const row of bucket.rows.values()) if (row.value !== undefined) this.#show(watch, row);
    this.#tell(watch, () => watcher.onReady());
    return {
      stop: () => {
        watch.live = false;
        bucket.watches.delete(watch);
      },
    };
  }

  #bucket(name: string): Bucket {
    let bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      bucket = { revision: 0, rows: new Map(), watches: new Set() };
      this.#buckets.set(name, bucket);
    }
    return bucket;
  }

  #write(bucketName: string, key: string, value: Uint8Array | undefined): Revision {
    const bucket = this.#bucket(bucketName);
    const row: Row = { key, value, revision: ++bucket.revision };
    const before = bucket.rows.get(key);
    bucket.rows.delete(key);
    bucket.rows.set(key, row);
    // Deleting an absent key takes a revision, as everywhere, but changes nothing for a watcher.
    const changed = value !== undefined || before?.value !== undefined;
    if (changed) for (const watch of bucket.watches) this.#show(watch, row);
    return { revision: row.revision };
  }

  #show(watch: { readonly prefix: string; readonly watcher: Watcher; live: boolean }, row: Row): void {
    if (!row.key.startsWith(watch.prefix)) return;
    this.#tell(watch, () => {
      if (row.value === undefined) watch.watcher.onDelete(row.key, row.revision);
      else watch.watcher.onEntry(entryOf(row, row.value));
    });
  }

  #tell(watch: { readonly live: boolean }, run: () => void): void {
    const guarded = () => {
      if (watch.live) run();
    };
    this.#deliver(() => (this.#available ? guarded() : this.#held.push(guarded)));
  }

  /** Performs an operation at once, in the order of the calls; the answer comes later. */
  #answer<T>(done: (result: T | StoreFailure) => void, perform: () => T): void {
    if (!this.#available) return this.#deliver(() => done({ failure: "the store does not answer" }));
    const result = perform();
    this.#deliver(() => done(result));
  }
}

const entryOf = (row: Row, value: Uint8Array): Entry => ({
  key: row.key,
  value: value.slice(),
  revision: row.revision,
});
