/** The contract of every store, run by one test file per store: leases and plans rest on it (T5). */
import type { Entry, Revision, Store, StoreFailure, Watcher } from "@tutti/ports/store";
import { isStoreFailure } from "@tutti/ports/store";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "./bus-tools.ts";

export interface StoreUnderTest {
  /** Opens another actor's view of the same store. */
  open(): Promise<Store>;
  /** Makes the store unreachable; it keeps its contents. */
  cut(): Promise<void>;
  heal(): Promise<void>;
  closeAll(): Promise<void>;
}

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);

export function storeConformance(name: string, under: () => StoreUnderTest): void {
  let a: Store;
  let b: Store;
  let bucket = "";
  let buckets = 0;
  beforeEach(async () => {
    bucket = `suite_${++buckets}`;
    a = await under().open();
    b = await under().open();
  });
  afterEach(() => under().closeAll());

  test(`${name}: what one writes another reads, and what nobody wrote is absent`, async () => {
    expect(await get(a, bucket, "key")).toBe("absent");
    const { revision } = await put(a, bucket, "key", bytes(1, 2, 3));
    expect(await get(b, bucket, "key")).toEqual({ key: "key", value: bytes(1, 2, 3), revision });
    expect(await get(b, `${bucket}_other`, "key")).toBe("absent");
  });

  test(`${name}: an answer never comes in the turn that asked, and a value may be used again at once`, async () => {
    const value = bytes(1, 2);
    let answered = false;
    const written = new Promise<void>((resolve) =>
      a.put(bucket, "key", value, () => {
        answered = true;
        resolve();
      }),
    );
    expect(answered).toBe(false);
    value.fill(9);
    await written;
    expect(await get(b, bucket, "key")).toMatchObject({ value: bytes(1, 2) });
  });

  test(`${name}: revisions rise over the whole bucket, over deletion and creation too, and none is given twice`, async () => {
    const revisions: number[] = [];
    for (const key of ["x", "y", "x"]) revisions.push((await put(a, bucket, key, bytes(1))).revision);
    expect(await remove(a, bucket, "x")).toBe("deleted");
    revisions.push(revisionOf(await update(b, bucket, "x", bytes(2), 0)));
    expect(await remove(a, bucket, "never-there")).toBe("deleted");
    revisions.push((await put(b, bucket, "z", bytes(3))).revision);
    expect(revisions).toEqual([...new Set(revisions)].sort((left, right) => left - right));
  });

  test(`${name}: an update takes place only on the revision that it names, and a creation only where nothing is`, async () => {
    const first = revisionOf(await update(a, bucket, "key", bytes(1), 0));
    expect(await update(b, bucket, "key", bytes(2), 0)).toBe("conflict");
    const second = revisionOf(await update(b, bucket, "key", bytes(2), first));
    expect(await update(a, bucket, "key", bytes(3), first)).toBe("conflict");
    expect(await get(a, bucket, "key")).toEqual({ key: "key", value: bytes(2), revision: second });
    await remove(a, bucket, "key");
    expect(await get(a, bucket, "key")).toBe("absent");
    expect(await update(a, bucket, "key", bytes(3), second)).toBe("conflict");
    expect(revisionOf(await update(a, bucket, "key", bytes(3), 0))).toBeGreaterThan(second);
  });

  test(`${name}: of writers that race for one revision exactly one wins`, async () => {
    let revision = 0;
    for (let round = 0; round < 20; round++) {
      const writers = [a, b, a, b, a];
      const results = await Promise.all(writers.map((store, i) => update(store, bucket, "lease", bytes(i), revision)));
      const won = results.flatMap((result, i) => (result === "conflict" ? [] : [{ i, at: revisionOf(result) }]));
      expect(won.length).toBe(1);
      expect(won[0]!.at).toBeGreaterThan(revision);
      revision = won[0]!.at;
      expect(await get(b, bucket, "lease")).toEqual({ key: "lease", value: bytes(won[0]!.i), revision });
    }
  });

  test(`${name}: a watch tells what is there, then that it is ready, then each change once and in order`, async () => {
    await put(a, bucket, "m.one", bytes(1));
    await put(a, bucket, "other", bytes(0));
    await put(a, bucket, "m.two", bytes(2));
    await put(a, bucket, "m.gone", bytes(3));
    await remove(a, bucket, "m.gone");
    const seen = new Seen();
    b.watch(bucket, "m.", seen);
    await until(() => seen.log.includes("ready"));
    expect(seen.log).toEqual(["m.one=1", "m.two=2", "ready"]);
    await put(a, bucket, "m.one", bytes(7));
    await put(a, bucket, "other", bytes(8));
    await remove(a, bucket, "m.two");
    await remove(a, bucket, "m.two");
    await put(a, bucket, "m.three", bytes(9));
    await until(() => seen.log.includes("m.three=9"));
    expect(seen.log.slice(3)).toEqual(["m.one=7", "m.two deleted", "m.three=9"]);
    expect(seen.revisions).toEqual([...seen.revisions].sort((left, right) => left - right));
  });

  test(`${name}: a watch on an empty bucket is ready at once, and one that is stopped hears nothing more`, async () => {
    const [stopped, other] = [new Seen(), new Seen()];
    const watch = a.watch(bucket, "", stopped);
    b.watch(bucket, "", other);
    await until(() => stopped.log.length + other.log.length === 2);
    expect([stopped.log, other.log]).toEqual([["ready"], ["ready"]]);
    watch.stop();
    await put(a, bucket, "key", bytes(1));
    await until(() => other.log.length === 2);
    expect(stopped.log).toEqual(["ready"]);
  });

  test(`${name}: a watch whose entries are overwritten while it begins is ready all the same, and has told them all`, async () => {
    const keys = ["x", "y", "z"];
    const write = (): Promise<unknown> => Promise.all(keys.map((key) => put(b, bucket, key, bytes(1))));
    await write();
    let over = false;
    const writing = (async () => {
      while (!over) await write();
    })();
    for (let round = 0; round < 200; round++) {
      const told = new Set<string>();
      await new Promise<void>((resolve) => {
        const watch = a.watch(bucket, "", {
          onEntry: ({ key }) => told.add(key),
          onDelete: (key) => told.delete(key),
          onReady: () => {
            queueMicrotask(() => watch.stop());
            resolve();
          },
          onFailure: () => undefined,
        });
      });
      expect([...told].sort()).toEqual(keys);
    }
    over = true;
    await writing;
  }, 30_000);

  test(`${name}: actors that start together may all be the first to use a bucket`, async () => {
    const actors = [a, b, ...(await Promise.all(Array.from({ length: 6 }, () => under().open())))];
    for (let round = 0; round < 25; round++) {
      const fresh = `${bucket}_${round}`;
      const seen = actors.map((actor) => {
        const watcher = new Seen();
        actor.watch(fresh, "", watcher);
        return watcher;
      });
      await Promise.all(actors.map((actor, i) => put(actor, fresh, `actor${i}`, bytes(i))));
      const expected = actors.map((_, i) => `actor${i}=${i}`);
      await until(() => seen.every(({ log }) => log.includes("ready") && entriesOf(log).length >= actors.length));
      for (const { log } of seen) expect(entriesOf(log).sort()).toEqual(expected);
    }
  });

  test(`${name}: the prefix of a watch may end within a token`, async () => {
    await put(a, bucket, "model.1", bytes(1));
    await put(a, bucket, "model.12", bytes(2));
    await put(a, bucket, "mode", bytes(3));
    await put(a, bucket, "modest", bytes(4));
    const seen = [new Seen(), new Seen()];
    a.watch(bucket, "model.1", seen[0]!);
    a.watch(bucket, "mode", seen[1]!);
    await until(() => seen.every(({ log }) => log.includes("ready")));
    expect(seen.map(({ log }) => log)).toEqual([
      ["model.1=1", "model.12=2", "ready"],
      ["model.1=1", "model.12=2", "mode=3", "modest=4", "ready"],
    ]);
  });

  test(`${name}: with many writers a watcher ends with what the bucket holds`, async () => {
    const held = new Map<string, number>();
    const watcher: Watcher = {
      onEntry: ({ key, value }) => held.set(key, value[0]!),
      onDelete: (key) => held.delete(key),
      onReady: () => {},
      onFailure: () => {},
    };
    b.watch(bucket, "", watcher);
    await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        i % 5 === 4 ? remove(a, bucket, `k${i % 7}`) : put(i % 2 === 0 ? a : b, bucket, `k${i % 7}`, bytes(i)),
      ),
    );
    await put(a, bucket, "last", bytes(1));
    await until(() => held.has("last"));
    for (let k = 0; k < 7; k++) {
      const entry = await get(a, bucket, `k${k}`);
      expect(held.get(`k${k}`)).toBe(entry === "absent" || isStoreFailure(entry) ? undefined : entry.value[0]);
    }
  });

  test(`${name}: after an outage nothing is forgotten, revisions go on, and a watch has missed nothing`, async () => {
    const seen = new Seen();
    await put(a, bucket, "stays", bytes(1));
    const { revision } = await put(a, bucket, "lease", bytes(2));
    b.watch(bucket, "", seen);
    await until(() => seen.log.includes("ready"));
    await under().cut();
    await untilAsync(async () => isStoreFailure(await get(a, bucket, "stays")));
    expect(isStoreFailure(await attempt(a, bucket, "lease"))).toBe(true);
    await under().heal();
    // The first client that reconnects makes the changes, perhaps before the watch is back.
    const changer = await under().open();
    await untilAsync(async () => !isStoreFailure(await get(changer, bucket, "stays")));
    const renewed = revisionOf(await update(changer, bucket, "lease", bytes(3), revision));
    expect(renewed).toBeGreaterThan(revision);
    expect(await remove(changer, bucket, "stays")).toBe("deleted");
    await put(changer, bucket, "new", bytes(4));
    await until(() => seen.log.includes("new=4"));
    const changes = seen.log.slice(seen.log.indexOf("ready") + 1).filter((line) => !line.startsWith("failed"));
    expect(changes).toEqual(["lease=3", "stays deleted", "new=4"]);
  });

  test(`${name}: a file of 10 MB comes back as it was, and one that was replaced or deleted is gone`, async () => {
    const file = new Uint8Array(10_000_000).map((_, i) => (i * 31) >>> 3);
    expect(await getFile(b, "model.onnx")).toBe("absent");
    expect(await putFile(a, "model.onnx", file)).toBe("stored");
    expect(Buffer.compare((await getFile(b, "model.onnx")) as Uint8Array, file)).toBe(0);
    expect(await putFile(b, "model.onnx", bytes(1, 2, 3))).toBe("stored");
    expect(await getFile(a, "model.onnx")).toEqual(bytes(1, 2, 3));
    expect(await new Promise((resolve) => a.files.delete("model.onnx", resolve))).toBe("deleted");
    expect(await getFile(b, "model.onnx")).toBe("absent");
    expect(await new Promise((resolve) => a.files.delete("never there", resolve))).toBe("deleted");
    expect(await putFile(a, "empty", new Uint8Array(0))).toBe("stored");
    expect(await getFile(b, "empty")).toEqual(new Uint8Array(0));
  });

  test(`${name}: a file that is deleted or replaced while it is read is read whole or absent, and none is waited for in vain`, async () => {
    const readings: Promise<unknown>[] = [];
    const versions = [1, 2].map((version) => new Uint8Array(300_000).fill(version)); // several chunks
    for (let round = 0; round < 60; round++) {
      expect(await putFile(a, "shared", versions[0]!)).toBe("stored");
      readings.push(getFile(b, "shared"));
      for (let turn = 0; turn < round % 12; turn++) await new Promise(setImmediate);
      if (round % 2 === 0) expect(await putFile(a, "shared", versions[1]!)).toBe("stored");
      else expect(await new Promise((resolve) => a.files.delete("shared", resolve))).toBe("deleted");
    }
    for (const read of await Promise.all(readings)) {
      if (read === "absent") continue;
      expect(versions.some((version) => Buffer.compare(version, read as Uint8Array) === 0)).toBe(true);
    }
  });
}

/** A watch's events, as lines. */
class Seen implements Watcher {
  readonly log: string[] = [];
  readonly revisions: number[] = [];
  onEntry(entry: Entry): void {
    this.log.push(`${entry.key}=${entry.value.join(",")}`);
    this.revisions.push(entry.revision);
  }
  onDelete(key: string, revision: number): void {
    this.log.push(`${key} deleted`);
    this.revisions.push(revision);
  }
  onReady(): void {
    this.log.push("ready");
  }
  onFailure(failure: StoreFailure): void {
    this.log.push(`failed: ${failure.failure}`);
  }
}

const get = (store: Store, bucket: string, key: string) =>
  new Promise<Entry | "absent" | StoreFailure>((resolve) => store.get(bucket, key, resolve));
const attempt = (store: Store, bucket: string, key: string) =>
  new Promise<Revision | StoreFailure>((resolve) => store.put(bucket, key, bytes(0), resolve));
async function put(store: Store, bucket: string, key: string, value: Uint8Array): Promise<Revision> {
  const result = await new Promise<Revision | StoreFailure>((resolve) => store.put(bucket, key, value, resolve));
  return { revision: revisionOf(result) };
}
const update = (store: Store, bucket: string, key: string, value: Uint8Array, revision: number) =>
  new Promise<Revision | "conflict" | StoreFailure>((resolve) => store.update(bucket, key, value, revision, resolve));
const remove = (store: Store, bucket: string, key: string) =>
  new Promise<"deleted" | StoreFailure>((resolve) => store.delete(bucket, key, resolve));
const putFile = (store: Store, name: string, file: Uint8Array) =>
  new Promise<"stored" | StoreFailure>((resolve) => store.files.put(name, file, resolve));
const getFile = (store: Store, name: string) =>
  new Promise<Uint8Array | "absent" | StoreFailure>((resolve) =>
    store.files.get(name, (result) => resolve(result !== "absent" && "bytes" in result ? result.bytes : result)),
  );

/**
 * Returns the entries that a watch reported, without its own state. A watch may fail for a while and go on: nats-server
 * 2.9.10 sometimes leaves a new consumer silent, and the watch is repaired some seconds later.
 */
const entriesOf = (log: readonly string[]): string[] =>
  log.filter((line) => line !== "ready" && !line.startsWith("failed: "));

function revisionOf(result: Revision | "conflict" | StoreFailure): number {
  if (result === "conflict" || isStoreFailure(result)) throw new Error(`not written: ${JSON.stringify(result)}`);
  return result.revision;
}

async function untilAsync(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}
