import { lstatSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { CommandError, makeFolder, makeNamedFolder } from "@tutti/admin";
import { userId } from "./user-id.ts";

const OTHERS_MAY_WRITE = 0o022;
const STICKY = 0o1000;
const ROOT = 0;
/** On Windows files have no owner by number, and each user has a temporary folder of its own. */
const HAS_OWNERS = process.getuid !== undefined;

/** This user's folder in the system's temporary one. Others can guess its name, and may have made it first. */
export const temporaryFolder = (): string => resolve(tmpdir(), `tutti-${userId()}`);

/**
 * Makes `temporaryFolder()`, in which no other user may put anything.
 *
 * @throws {CommandError} it can't be made, or others can reach it
 */
export function makeTemporaryFolder(): void {
  const path = temporaryFolder();
  const { mode } = makeOwnFolder(path);
  if (!HAS_OWNERS) return;
  if ((mode & OTHERS_MAY_WRITE) !== 0)
    throw new CommandError(`other users may write to ${path}, and may have: remove it`);
  // A user that may rename it can put another in its place.
  const parent = statSync(dirname(path));
  const isSafe = (parent.mode & OTHERS_MAY_WRITE) === 0 || (parent.mode & STICKY) !== 0;
  if (!isSafe || (parent.uid !== userId() && parent.uid !== ROOT))
    throw new CommandError(`other users may rename what lies in ${dirname(path)}, which is not sticky or not root's`);
}

/** Makes the folder of --state. @returns its whole path. @throws {CommandError} it can't be made or trusted */
export function makeStateFolder(state: string): string {
  const path = resolve(state);
  if (path !== temporaryFolder()) makeNamedFolder("--state", path);
  else
    try {
      makeTemporaryFolder();
    } catch (error) {
      const advice = "name a folder that only this user can write to with --state";
      throw new CommandError(`${(error as Error).message}; ${advice}`, undefined, error);
    }
  return path;
}

/**
 * Makes a folder unless it is there. Another user may have put a link or a folder of its own at a name that can be
 * guessed.
 *
 * @throws {CommandError} it can't be made, is a link, or belongs to another user
 */
export function makeOwnFolder(path: string, newMode?: number): { readonly mode: number } {
  try {
    makeFolder(path, newMode);
  } catch (error) {
    throw new CommandError(`${path} can't be made: ${(error as Error).message}`, undefined, error);
  }
  const made = lstatSync(path);
  if (!made.isDirectory())
    throw new CommandError(`${path} is a link, which another user may have put there: remove it`);
  checkOwner(path, made.uid);
  return made;
}

/**
 * Makes a folder that the operator names by a flag or a variable, unless it is there; a link to a folder is as good.
 *
 * @throws {CommandError} it can't be made, or belongs to another user
 */
export function makeOwnNamedFolder(name: string, path: string): { readonly mode: number } {
  makeNamedFolder(name, path);
  const made = statSync(path);
  checkOwner(`${name} ${path}`, made.uid);
  return made;
}

function checkOwner(what: string, uid: number): void {
  if (HAS_OWNERS && uid !== userId()) throw new CommandError(`${what} belongs to another user`);
}
