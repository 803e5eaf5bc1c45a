import { writeFileSync } from "node:fs";
import { CommandError } from "@tutti/admin";

/** @throws {CommandError} the file can't be written */
export function writePage(path: string, html: string): void {
  try {
    writeFileSync(path, html);
  } catch (error) {
    throw new CommandError(`${path} can't be written (${(error as NodeJS.ErrnoException).code})`, undefined, error);
  }
}

/** The command as it was typed, for readers of the page. */
export const typedCommand = (): string => `tutti ${process.argv.slice(2).join(" ")}`;
