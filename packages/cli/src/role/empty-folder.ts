import { chmodSync, mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { CommandError } from "../failure.ts";

/**
 * The working directory of a process that runs models: whatever finds files by relative paths there finds none, and
 * leaves none.
 *
 * @param state - the folder that it is made in
 * @returns its path: empty, and mode 0500
 * @throws {CommandError} somebody has put something there
 */
export function emptyFolder(state: string): string {
  const path = resolve(join(state, "empty"));
  mkdirSync(path, { recursive: true, mode: 0o500 });
  chmodSync(path, 0o500);
  if (readdirSync(path).length > 0)
    throw new CommandError(
      `${path} is the working directory of executors and must be empty: move away what lies there`,
    );
  return path;
}
