import { chmodSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { CommandError } from "@tutti/admin";
import { makeOwnFolder } from "./own-folder.ts";

/**
 * Creates the working directory of a process that runs models. Code that opens files by relative paths finds none
 * there, and can't create any.
 *
 * @param state - parent folder, which is there
 * @returns its path: empty, and mode 0500
 * @throws {CommandError} the folder has files in it, is a link, or belongs to another user
 */
export function emptyFolder(state: string): string {
  const path = resolve(join(state, "empty"));
  makeOwnFolder(path, 0o500);
  chmodSync(path, 0o500);
  if (readdirSync(path).length > 0)
    throw new CommandError(
      `${path} is the working directory of executors and must be empty: move away what lies there`,
    );
  return path;
}
