import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { SetupError } from "./progress.mjs";

/**
 * Makes the private folder that a variable names. Node's `recursive` tries for ever where a file system such as /proc
 * has no place for a folder.
 *
 * @param {string} variable
 * @param {string} path
 */
export function makeNamedFolder(variable, path) {
  try {
    makeFolder(path);
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw new SetupError(`${path} can't be made (${message}): name another folder with ${variable}`);
  }
}

/** @param {string} path */
function makeFolder(path) {
  if (isFolder(path)) return;
  if (dirname(path) !== path) makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have been first.
    if (!isFolder(path)) throw error;
  }
}

/** @param {string} path */
const isFolder = (path) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
