import { closeSync, openSync, writeSync } from "node:fs";
import { CommandError } from "@tutti/admin";

/** Buffer size: some hundreds of lines for each system call. */
const BUFFER_CHARACTERS = 65_536;

/**
 * A file that is written synchronously, line by line. A simulation runs in one turn of the event loop, in which a
 * stream would keep all lines in memory.
 */
export class LineFile {
  readonly #file: number;
  #buffer: string[] = [];
  #characters = 0;

  /** @throws {CommandError} the file can't be written */
  constructor(path: string) {
    try {
      this.#file = openSync(path, "w");
    } catch (error) {
      throw new CommandError(`${path} can't be written (${(error as NodeJS.ErrnoException).code})`, undefined, error);
    }
  }

  readonly write = (line: string): void => {
    this.#buffer.push(line, "\n");
    this.#characters += line.length + 1;
    if (this.#characters >= BUFFER_CHARACTERS) this.#flush();
  };

  close(): void {
    this.#flush();
    closeSync(this.#file);
  }

  #flush(): void {
    const bytes = Buffer.from(this.#buffer.join(""));
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
    this.#buffer = [];
    this.#characters = 0;
  }
}
