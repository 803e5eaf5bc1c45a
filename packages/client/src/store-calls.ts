/**
 * Promises over the store's callbacks, for programs that may await. A failure is UNAVAILABLE: whether a write took
 * place is then unknown.
 */
import { TuttiError } from "@tutti/protocol";
import { type Entry, type Store, type StoreFailure, isStoreFailure } from "@tutti/ports/store";

type Call<Result> = (done: (result: Result | StoreFailure) => void) => void;

function called<Result>(what: string, call: Call<Result>): Promise<Exclude<Result, StoreFailure>> {
  return new Promise((resolve, reject) => {
    call((result) => {
      if (isStoreFailure(result)) {
        const advice = /no space left|insufficient storage/i.test(result.failure)
          ? "make room where the NATS server keeps its store"
          : "check that the NATS server runs with JetStream";
        reject(new TuttiError("TUTTI_UNAVAILABLE", `${what}: ${result.failure}; ${advice}`));
      } else resolve(result as Exclude<Result, StoreFailure>);
    });
  });
}

export const getEntry = (store: Store, bucket: string, key: string): Promise<Entry | undefined> =>
  called<Entry | "absent">(`reading ${bucket}/${key}`, (done) => store.get(bucket, key, done)).then((result) =>
    result === "absent" ? undefined : result,
  );

export const putEntry = (store: Store, bucket: string, key: string, value: Uint8Array): Promise<number> =>
  called<{ revision: number }>(`writing ${bucket}/${key}`, (done) => store.put(bucket, key, value, done)).then(
    ({ revision }) => revision,
  );

/** Compare-and-set. @returns the new revision, or undefined when another writer was faster */
export const updateEntry = (
  store: Store,
  bucket: string,
  key: string,
  change: { readonly value: Uint8Array; readonly revision: number },
): Promise<number | undefined> =>
  called<{ revision: number } | "conflict">(`writing ${bucket}/${key}`, (done) =>
    store.update(bucket, key, change.value, change.revision, done),
  ).then((result) => (result === "conflict" ? undefined : result.revision));

export const deleteEntry = (store: Store, bucket: string, key: string): Promise<unknown> =>
  called<string>(`deleting ${bucket}/${key}`, (done) => store.delete(bucket, key, done));

export const putFile = (store: Store, name: string, bytes: Uint8Array): Promise<unknown> =>
  called<string>(`storing the file ${name}`, (done) => store.files.put(name, bytes, done));

export const deleteFile = (store: Store, name: string): Promise<unknown> =>
  called<string>(`deleting the file ${name}`, (done) => store.files.delete(name, done));

/** Reads all entries of a bucket, or those whose keys begin with `prefix`. */
export function listEntries(store: Store, bucket: string, prefix = ""): Promise<Entry[]> {
  return new Promise((resolve, reject) => {
    const entries = new Map<string, Entry>();
    const end = (settle: () => void): void => {
      queueMicrotask(() => watch.stop()); // the first call may come before `watch` is assigned
      settle();
    };
    const watch = store.watch(bucket, prefix, {
      onEntry: (entry) => entries.set(entry.key, entry),
      onDelete: (key) => entries.delete(key),
      onReady: () => end(() => resolve([...entries.values()])),
      onFailure: ({ failure }) =>
        end(() => reject(new TuttiError("TUTTI_UNAVAILABLE", `reading ${bucket}: ${failure}`))),
    });
  });
}
