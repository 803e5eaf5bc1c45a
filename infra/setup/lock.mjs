/**
 * A lock that allows one setup at a time in one clone. It is a folder (mkdir is atomic everywhere) with a file that
 * names its owner. A lock is stale, and taken over, when
 *   - its owner ran on this host and is gone (same pid *and* same start: a container restarts with the same pids), or
 *   - it comes from another host, or has no owner yet, and has not been touched for a minute.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { readJson } from "./host.mjs";

const TOUCH_EVERY_MS = 5_000;
const UNTOUCHED_MS_MAX = 60_000;
const POLL_MS = 200; // a removed folder makes no event that every file system has

/**
 * @typedef {{ pid: number, host: string, start: string }} Owner
 * @typedef {object} LockWorld - the lock's view of the machine; tests replace it
 * @property {Owner} self
 * @property {(pid: number) => string | undefined} startOf - when a living process started; undefined when it is gone
 * @property {() => number} now - milliseconds
 */

/** @returns {LockWorld} */
export const thisWorld = () => ({
  self: { pid: process.pid, host: hostname(), start: startOf(process.pid) ?? "" },
  startOf,
  now: () => Date.now(),
});

/** @param {number} pid @returns {string | undefined} */
function startOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8");
    const afterName = fields.slice(fields.lastIndexOf(")") + 2).split(" ");
    return afterName[0] === "Z" ? undefined : afterName[19]; // field 22 of proc(5): clock ticks since boot
  } catch {
    if (process.platform === "linux") return undefined;
  }
  try {
    process.kill(pid, 0);
    return "alive";
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM" ? "alive" : undefined;
  }
}

/**
 * Whether the owner of the lock at `path` is gone, so that it can't release it.
 *
 * @param {string} path @param {LockWorld} world @returns {boolean}
 */
export function isStale(path, world) {
  const untouched = world.now() - touchedAt(path, world.now());
  const owner = /** @type {Owner | undefined} */ (readJson(join(path, "owner.json")));
  if (owner === undefined || owner.host !== world.self.host) return untouched > UNTOUCHED_MS_MAX;
  return world.startOf(owner.pid) !== owner.start;
}

/** @param {string} path @param {number} otherwise @returns {number} */
function touchedAt(path, otherwise) {
  try {
    return statSync(path).mtimeMs;
  } catch {
    return otherwise;
  }
}

/**
 * Does `work` while holding the lock, waiting for it as long as its owner lives.
 *
 * @template T
 * @param {string} path @param {() => Promise<T>} work
 * @param {{ world?: LockWorld, onWait?: (owner: Owner | undefined) => void }} [options]
 * @returns {Promise<T>}
 */
export async function withLock(path, work, options = {}) {
  const world = options.world ?? thisWorld();
  let told = false;
  while (!tryLock(path, world)) {
    if (isStale(path, world)) breakStale(path, world);
    else {
      if (!told) options.onWait?.(readJson(join(path, "owner.json")));
      told = true;
      await pause(POLL_MS);
    }
  }
  const touching = setInterval(() => utimesSync(path, new Date(), new Date()), TOUCH_EVERY_MS);
  touching.unref();
  try {
    return await work();
  } finally {
    clearInterval(touching);
    rmSync(path, { recursive: true, force: true });
  }
}

/** @param {string} path @param {LockWorld} world @returns {boolean} */
function tryLock(path, world) {
  try {
    mkdirSync(path);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  }
  writeFileSync(join(path, "owner.json"), JSON.stringify(world.self));
  return true;
}

/**
 * Removes a stale lock. Two processes that wait must not both remove one: the second would remove the lock that the
 * first has just taken. So the removal itself is locked, and staleness is checked again inside.
 *
 * @param {string} path @param {LockWorld} world
 */
function breakStale(path, world) {
  const breaker = `${path}.breaker`;
  try {
    mkdirSync(breaker);
  } catch {
    if (world.now() - touchedAt(breaker, world.now()) > UNTOUCHED_MS_MAX)
      rmSync(breaker, { recursive: true, force: true });
    return; // another process removes it; that takes microseconds
  }
  try {
    if (!isStale(path, world)) return;
    const grave = `${path}.stale-${world.self.pid}`;
    renameSync(path, grave);
    rmSync(grave, { recursive: true, force: true });
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error; // released meanwhile
  } finally {
    rmSync(breaker, { recursive: true, force: true });
  }
}
