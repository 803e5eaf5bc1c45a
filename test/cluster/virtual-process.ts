import type { Store } from "@tutti/ports/store";
import type { Telemetry } from "@tutti/ports/telemetry";

/** The store as a process sees it that may be dead. Calls and callbacks of a dead process have no effect. */
export function gated(store: Store, alive: () => boolean): Store {
  const ignore = { stop: () => undefined };
  return {
    get: (bucket, key, done) => alive() && store.get(bucket, key, (result) => alive() && done(result)),
    put: (bucket, key, value, done) => alive() && store.put(bucket, key, value, (result) => alive() && done(result)),
    update: (bucket, key, value, revision, done) =>
      alive() && store.update(bucket, key, value, revision, (result) => alive() && done(result)),
    delete: (bucket, key, done) => alive() && store.delete(bucket, key, (result) => alive() && done(result)),
    watch: (bucket, prefix, watcher) =>
      alive()
        ? store.watch(bucket, prefix, {
            onEntry: (entry) => alive() && watcher.onEntry(entry),
            onDelete: (key, revision) => alive() && watcher.onDelete(key, revision),
            onReady: () => alive() && watcher.onReady(),
            onFailure: (failure) => alive() && watcher.onFailure(failure),
          })
        : ignore,
    files: store.files,
  };
}

const silentLog: Telemetry["log"] = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
export const silent: Telemetry = {
  log: silentLog,
  tracer: {
    enabled: false,
    start: () => ({
      context: { traceId: "0".repeat(32), spanId: "0".repeat(16), sampled: false },
      set: () => undefined,
      event: () => undefined,
      keep: () => undefined,
      end: () => undefined,
    }),
  },
};
