import { BUCKET, leaseKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { toJson } from "@tutti/wire";
import { beforeEach, expect, test } from "vitest";
import { type LockTimes, OperationLock } from "./operation-lock.ts";

let store: InMemoryStore;
let times: LockTimes;
/** Scaled times: a waiting operator's ten polls take as long as one renewal of a holder. */
beforeEach(() => {
  store = new InMemoryStore({ deliver: (run) => void setImmediate(run) });
  times = { renewMs: 1, staleMs: 20, wait: (ms) => new Promise((resolve) => setTimeout(resolve, 10 * ms)) };
});

const take = (who: string, waits: string[] = []): Promise<OperationLock> =>
  OperationLock.take(store, { who, what: "restart all" }, (text) => waits.push(text), times);

test("a second operator is refused while the first works, and taken when it is done", async () => {
  const first = await take("ann");
  await expect(take("bob")).rejects.toThrow("ann is at work (restart all)");
  first.assertHeld();
  await first.release();
  await (await take("bob")).release();
});

test("of two at the same moment one wins", async () => {
  const both = await Promise.allSettled([take("ann"), take("bob")]);
  expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  for (const result of both) if (result.status === "fulfilled") await result.value.release();
});

test("the lock of a holder that is gone is taken over, after a wait that is explained", async () => {
  const left = toJson({ who: "ann", what: "restart all" });
  await new Promise((resolve) => store.put(BUCKET.leases, leaseKeys.operation, left, resolve));
  const waits: string[] = [];
  await (await take("bob", waits)).release();
  expect(waits).toEqual(["ann was at work (restart all); waits to see whether that still goes on"]);
});

test("a holder that was away for too long learns that it holds nothing any more", async () => {
  const first = await take("ann");
  const other = toJson({ who: "bob", what: "drain executor-0" });
  await new Promise((resolve) => store.put(BUCKET.leases, leaseKeys.operation, other, resolve));
  await new Promise((resolve) => setTimeout(resolve, 100)); // ten renewals
  expect(() => first.assertHeld()).toThrow("another operator has taken over");
  await first.release();
});

test("a store that does not answer at first is asked again, and what it took without saying so is ours", async () => {
  const update = store.update.bind(store);
  let failures = 2;
  store.update = (bucket, key, value, revision, done) =>
    update(bucket, key, value, revision, (result) => done(failures-- > 0 ? { failure: "timeout" } : result));
  const lock = await take("ann");
  failures = 1;
  await new Promise((resolve) => setTimeout(resolve, 100)); // ten renewals
  lock.assertHeld();
  await lock.release();
});

test("an entry of a newer form is somebody's lock, and whoever renews it keeps others out (STORED-4)", async () => {
  const write = (): void => void store.put(BUCKET.leases, leaseKeys.operation, toJson({ form: 2, by: "ann" }), () => 0);
  write();
  const renewing = setInterval(write, 5);
  await expect(take("bob")).rejects.toThrow("written by a newer release");
  clearInterval(renewing);
});

test("an entry that can't be read is nobody's lock (T8)", async () => {
  await new Promise((resolve) => store.put(BUCKET.leases, leaseKeys.operation, new Uint8Array([1, 2, 3]), resolve));
  await (await take("bob")).release();
});
