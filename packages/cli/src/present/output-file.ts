import { closeSync, existsSync, openSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { CommandError } from "@tutti/admin";

/** @throws {CommandError} the file can't be written */
export const writeOutput = (path: string, text: string): void => writing(path, () => writeFileSync(path, text));

/**
 * For a command with long work before its output. A file that is there stays as it is, and none is left that was not.
 *
 * @throws {CommandError} the file can't be written
 */
export function checkOutput(path: string | undefined): void {
  if (path === undefined) return;
  writing(path, () => {
    const isThere = existsSync(path);
    closeSync(openSync(path, "a"));
    if (!isThere) rmSync(realpathSync(path)); // the file and not a link that leads to it
  });
}

function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (error) {
    throw new CommandError(`${path} can't be written (${(error as NodeJS.ErrnoException).code})`, undefined, error);
  }
}

/** The command as it was typed, for readers of the page. */
export const typedCommand = (): string => `tutti ${process.argv.slice(2).join(" ")}`;
