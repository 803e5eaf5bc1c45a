import { closeSync, openSync, writeFileSync } from "node:fs";
import { CommandError } from "@tutti/admin";

/** @throws {CommandError} the file can't be written */
export const writeOutput = (path: string, text: string): void => writing(path, () => writeFileSync(path, text));

/** For a command with long work before its output. @throws {CommandError} the file can't be written */
export function checkOutput(path: string | undefined): void {
  if (path !== undefined) writing(path, () => closeSync(openSync(path, "a")));
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
