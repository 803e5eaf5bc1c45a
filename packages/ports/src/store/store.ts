/**
 * The store port: key-value buckets with compare-and-set and watches, and an object bucket for files. Revisions rise
 * over a whole bucket and are never given twice, so a revision can be a fencing epoch. Answers come by callback, once,
 * never in the turn of the call.
 */
export interface Store {
  get(bucket: string, key: string, done: (result: Entry | "absent" | StoreFailure) => void): void;
  put(bucket: string, key: string, value: Uint8Array, done: (result: Revision | StoreFailure) => void): void;
  /** Compare-and-set: succeeds only if the key's newest revision is `revision` (0: the key must be absent). */
  update(
    bucket: string,
    key: string,
    value: Uint8Array,
    revision: number,
    done: (result: Revision | "conflict" | StoreFailure) => void,
  ): void;
  delete(bucket: string, key: string, done: (result: "deleted" | StoreFailure) => void): void;
  /**
   * Delivers all present entries whose key starts with `prefix`, then `ready`. Then it delivers every change as it
   * comes, in order of revision.
   */
  watch(bucket: string, prefix: string, watcher: Watcher): { stop(): void };
  readonly files: Files;
}

export interface Watcher {
  onEntry(entry: Entry): void;
  onDelete(key: string, revision: number): void;
  /** Called when all entries that were present at the start of the watch have been delivered. */
  onReady(): void;
  onFailure(failure: StoreFailure): void;
}

export interface Files {
  put(name: string, bytes: Uint8Array, done: (result: "stored" | StoreFailure) => void): void;
  get(name: string, done: (result: { readonly bytes: Uint8Array } | "absent" | StoreFailure) => void): void;
  delete(name: string, done: (result: "deleted" | StoreFailure) => void): void;
}

export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}
export type Revision = { readonly revision: number };
/** The store did not answer, or refused: it is unknown whether a write took place. */
export type StoreFailure = { readonly failure: string };
export const isStoreFailure = (result: unknown): result is StoreFailure =>
  typeof result === "object" && result !== null && "failure" in result;
