import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isStale, withLock } from "../../infra/setup/lock.mjs";

let folder: string;
let lock: string;
const self = { pid: 100, host: "here", start: "start-of-100" };
const world = (alive: Record<number, string>) => ({
  self,
  startOf: (pid: number) => alive[pid],
  now: () => Date.now(),
});

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-lock-"));
  lock = join(folder, "setup.lock");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function held(owner: object | undefined, untouchedMs = 0): void {
  mkdirSync(lock);
  if (owner !== undefined) writeFileSync(join(lock, "owner.json"), JSON.stringify(owner));
  const touched = new Date(Date.now() - untouchedMs);
  utimesSync(lock, touched, touched);
}

test("two setups at once take turns", async () => {
  const log: string[] = [];
  const work = (name: string) => async () => {
    log.push(`${name} in`);
    await new Promise((resolve) => setImmediate(resolve));
    log.push(`${name} out`);
  };
  await Promise.all([withLock(lock, work("a")), withLock(lock, work("b")), withLock(lock, work("c"))]);
  expect(log.filter((_, i) => i % 2 === 0).map((entry) => entry.slice(2))).toEqual(["in", "in", "in"]);
  for (let i = 0; i < log.length; i += 2) expect(log[i + 1]).toBe(log[i]?.replace("in", "out"));
  expect(existsSync(lock)).toBe(false);
});

test("a failed setup releases the lock", async () => {
  await expect(withLock(lock, () => Promise.reject(new Error("no network")))).rejects.toThrow("no network");
  expect(existsSync(lock)).toBe(false);
});

test("a lock whose owner lives is not stale, however long it takes", () => {
  held({ pid: 7, host: "here", start: "s7" }, 3_600_000);
  expect(isStale(lock, world({ 7: "s7" }))).toBe(false);
});

test("a lock whose owner is gone is stale at once", () => {
  held({ pid: 7, host: "here", start: "s7" });
  expect(isStale(lock, world({}))).toBe(true);
});

test("another process under the dead owner's pid doesn't keep the lock", () => {
  held({ pid: 7, host: "here", start: "s7" });
  expect(isStale(lock, world({ 7: "started later" }))).toBe(true);
});

test("another host's lock is stale only when nobody has touched it for a minute", () => {
  held({ pid: 7, host: "elsewhere", start: "s7" });
  expect(isStale(lock, world({}))).toBe(false);
  const longAgo = new Date(Date.now() - 120_000);
  utimesSync(lock, longAgo, longAgo);
  expect(isStale(lock, world({}))).toBe(true);
});

test("a lock that has no owner yet is given time to name one", () => {
  held(undefined);
  expect(isStale(lock, world({}))).toBe(false);
});

test("a stale lock is taken over, by one at a time", async () => {
  held({ pid: 7, host: "here", start: "s7" });
  let inside = 0;
  const work = async () => {
    expect(++inside).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    inside--;
  };
  const alive = world({ 100: "start-of-100" });
  await Promise.all([1, 2, 3, 4].map(() => withLock(lock, work, { world: alive })));
  expect(existsSync(lock)).toBe(false);
});

test("who waits is told for whom, once", async () => {
  const told: unknown[] = [];
  let release = (): void => {};
  let entered = (): void => {};
  const isIn = new Promise<void>((resolve) => (entered = resolve));
  const first = withLock(lock, () => {
    entered();
    return new Promise<void>((resolve) => (release = resolve));
  });
  await isIn;
  const second = withLock(lock, () => Promise.resolve("mine"), {
    onWait: (owner) => {
      told.push(owner?.pid);
      release();
    },
  });
  await first;
  expect(await second).toBe("mine");
  expect(told).toEqual([process.pid]);
});
