import type { Entry, Files, Revision, Store, StoreFailure, Watcher } from "@tutti/ports/store";
import {
  type JetStreamClient,
  JetStreamApiError,
  type JetStreamManager,
  StorageType,
  jetstream,
} from "@nats-io/jetstream";
import { type KV, Kvm } from "@nats-io/kv";
import { type ObjectStore, Objm } from "@nats-io/obj";
import type { NatsConnection as Connection } from "@nats-io/transport-node";
import { KvWatch } from "./kv-watch.ts";
import type { NatsBus } from "./nats-bus.ts";
import { readFile } from "./read-file.ts";
import { HalfMadeStream, onceSettled } from "./settling.ts";

export interface NatsStoreOptions {
  readonly control: { readonly bus: NatsBus; readonly connection: Connection };
  /** The connection for files, so that they never delay control. */
  readonly bulk: { readonly bus: NatsBus; readonly connection: Connection };
  readonly inboxPrefix: string;
  readonly filesBucket: string;
  readonly replicas: number;
  readonly onError: (error: unknown) => void;
}

interface Operation {
  readonly bus: NatsBus;
  fail(failure: string): void;
}

/** Operations in flight at once; beyond, they fail at once. */
const OPERATIONS_MAX = 4_096;
const KV_TIMEOUT_MS = 2_000;
const FILES_TIMEOUT_MS = 10_000;
/** Largest model file; a file is held in memory on its way. */
export const FILE_BYTES_MAX = 2_147_483_647;
/** "Wrong last sequence": another writer was faster. Newer servers in a cluster use the second code. */
const CONFLICT_CODES: readonly number[] = [10071, 10164];
/** Start of the time of creation that nats-server 2.9 gives of a stream whose store is just being made. */
const NOT_YET_CREATED = "0001-";

/**
 * The store port on JetStream: KV buckets and one object bucket. They are kept in files, never in memory: revisions
 * must survive a restart (T5).
 */
export class NatsStore implements Store {
  readonly files: Files;
  readonly #options: NatsStoreOptions;
  readonly #kv: JetStreamClient;
  readonly #buckets = new Map<string, Promise<KV>>();
  readonly #watches = new Set<KvWatch>();
  readonly #underWay = new Set<Operation>();
  #manager: Promise<JetStreamManager> | undefined;

  constructor(options: NatsStoreOptions) {
    this.#options = options;
    // Skip the check of the account at the start: it needs one more permission, and the first operation reports the
    // same.
    const common = { checkAPI: false, watcherPrefix: options.inboxPrefix };
    this.#kv = jetstream(options.control.connection, { ...common, timeout: KV_TIMEOUT_MS });
    const objects = jetstream(options.bulk.connection, { ...common, timeout: FILES_TIMEOUT_MS });
    this.files = this.#filesIn(cached(() => this.#openObjects(objects)));
    this.#failOn(options.control.bus);
    this.#failOn(options.bulk.bus);
    options.control.bus.onStatus((status) => {
      if (status.kind === "reconnected") for (const watch of this.#watches) watch.restart();
      if (status.kind === "closed") for (const watch of this.#watches) watch.stop();
    });
  }

  get(bucket: string, key: string, done: (result: Entry | "absent" | StoreFailure) => void): void {
    this.#perform(done, async () => {
      const entry = await (await this.#bucket(bucket)).get(key);
      if (entry === null || entry.operation !== "PUT") return "absent";
      return { key, value: new Uint8Array(entry.value), revision: entry.revision };
    });
  }

  put(bucket: string, key: string, value: Uint8Array, done: (result: Revision | StoreFailure) => void): void {
    const copy = new Uint8Array(value);
    this.#perform(done, async () => ({ revision: await (await this.#bucket(bucket)).put(key, copy) }));
  }

  update(
    bucket: string,
    key: string,
    value: Uint8Array,
    revision: number,
    done: (result: Revision | "conflict" | StoreFailure) => void,
  ): void {
    const copy = new Uint8Array(value);
    this.#perform<Revision | "conflict">(done, async () => {
      const kv = await this.#bucket(bucket);
      try {
        return { revision: revision === 0 ? await kv.create(key, copy) : await kv.update(key, copy, revision) };
      } catch (error) {
        if (error instanceof JetStreamApiError && CONFLICT_CODES.includes(error.code)) return "conflict";
        throw error;
      }
    });
  }

  delete(bucket: string, key: string, done: (result: "deleted" | StoreFailure) => void): void {
    this.#perform<"deleted">(done, async () => {
      await (await this.#bucket(bucket)).delete(key);
      return "deleted";
    });
  }

  watch(bucket: string, prefix: string, watcher: Watcher): { stop(): void } {
    const watch = new KvWatch({
      connection: this.#options.control.connection,
      inboxPrefix: this.#options.inboxPrefix,
      bucket,
      prefix,
      watcher,
      open: async (afresh) => {
        if (afresh) this.#buckets.delete(bucket);
        await onceSettled(
          () => this.#bucket(bucket),
          () => this.#hasJetStream(),
        );
        return this.#manage();
      },
      onError: this.#options.onError,
    });
    this.#watches.add(watch);
    return {
      stop: () => {
        watch.stop();
        this.#watches.delete(watch);
      },
    };
  }

  /** Makes the bucket on its first use. A failure is forgotten, so that the next use tries again. */
  #bucket(name: string): Promise<KV> {
    let bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      bucket = this.#open(name);
      this.#buckets.set(name, bucket);
      bucket.catch(() => this.#buckets.delete(name));
    }
    return bucket;
  }

  async #open(name: string): Promise<KV> {
    const bucket = await new Kvm(this.#kv).create(name, {
      history: 1,
      storage: StorageType.File,
      replicas: this.#options.replicas,
      // Reads go to the stream's leader: a replica may lag, and a starting actor must read the current terms (T5).
      allow_direct: false,
    });
    const { streamInfo } = await bucket.status();
    if (streamInfo.created.startsWith(NOT_YET_CREATED)) throw new HalfMadeStream(name);
    return bucket;
  }

  #manage(): Promise<JetStreamManager> {
    this.#manager ??= this.#kv.jetstreamManager(false);
    this.#manager.catch(() => (this.#manager = undefined));
    return this.#manager;
  }

  #openObjects(client: JetStreamClient): Promise<ObjectStore> {
    return new Objm(client).create(this.#options.filesBucket, {
      storage: StorageType.File,
      replicas: this.#options.replicas,
    });
  }

  #filesIn(objects: () => Promise<ObjectStore>): Files {
    const { bus } = this.#options.bulk;
    return {
      put: (name, bytes, done) => {
        if (bytes.length > FILE_BYTES_MAX) {
          return queueMicrotask(() => done({ failure: `${name}: a file has at most ${FILE_BYTES_MAX} bytes` }));
        }
        const copy = new Uint8Array(bytes);
        this.#perform<"stored">(
          done,
          async () => {
            await (await objects()).putBlob({ name }, copy);
            return "stored";
          },
          bus,
        );
      },
      get: (name, done) =>
        this.#perform(
          done,
          async () => {
            const bytes = await readFile(await objects(), name);
            return bytes === null ? "absent" : { bytes };
          },
          bus,
        ),
      delete: (name, done) =>
        this.#perform<"deleted">(
          done,
          async () => {
            await (await objects()).delete(name);
            return "deleted";
          },
          bus,
        ),
    };
  }

  #perform<T>(
    done: (result: T | StoreFailure) => void,
    operation: () => Promise<T>,
    bus = this.#options.control.bus,
  ): void {
    const answer = (result: T | StoreFailure) => {
      try {
        done(result);
      } catch (error) {
        this.#options.onError(error);
      }
    };
    if (!bus.connected) return queueMicrotask(() => answer({ failure: "not connected to NATS" }));
    if (this.#underWay.size >= OPERATIONS_MAX) {
      return queueMicrotask(() => answer({ failure: `${OPERATIONS_MAX} operations are already under way` }));
    }
    const running: Operation = { bus, fail: (failure) => settle({ failure }) };
    const settle = (result: T | StoreFailure) => {
      if (this.#underWay.delete(running)) answer(result);
    };
    this.#underWay.add(running);
    onceSettled(operation, () => this.#underWay.has(running) && this.#hasJetStream()).then(settle, (error: unknown) => {
      const failure = this.#reasonOf(error);
      // The bucket was removed meanwhile: make it again at the next use.
      if (failure.includes("stream not found")) this.#buckets.clear();
      settle({ failure });
    });
  }

  /**
   * Fails pending operations at once. The library would wait for answers that cannot come: seconds for an entry, a
   * minute for a file.
   */
  #failOn(bus: NatsBus): void {
    bus.onStatus((status) => {
      if (status.kind !== "disconnected" && status.kind !== "closed") return;
      for (const operation of [...this.#underWay]) if (operation.bus === bus) operation.fail("the connection was lost");
    });
  }

  #hasJetStream(): boolean {
    return this.#options.control.connection.info?.jetstream === true;
  }

  #reasonOf(error: unknown): string {
    if (!this.#hasJetStream()) {
      return "JetStream is off at this NATS server: start it with a jetstream { store_dir } block";
    }
    return error instanceof Error ? error.message : String(error);
  }
}

/** Keeps the first success; a failure is forgotten. */
function cached<T>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  return () => {
    if (opened === undefined) {
      opened = open();
      opened.catch(() => (opened = undefined));
    }
    return opened;
  };
}
