/** Binds threads of this process to chosen cores, by `taskset`. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";

const TASKS = "/proc/self/task";

/** Ids of this process' threads; none where the system doesn't list them. */
export const threadIds = (): string[] => (existsSync(TASKS) ? readdirSync(TASKS) : []);

/** @returns whether all of them were bound; a thread that has ended meanwhile doesn't matter */
export function bindThreads(ids: readonly string[], cores: readonly number[]): boolean {
  if (ids.length === 0) return false;
  return ids.every(
    (id) => spawnSync("taskset", ["-pc", cores.join(","), id]).status === 0 || !threadIds().includes(id),
  );
}
