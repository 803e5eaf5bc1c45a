/**
 * `.tutti/run/<port>/`: files that one `tutti up` needs while it runs. Only their owner may read the credentials in it.
 */
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { CommandError, makeFolder } from "@tutti/admin";
import { type RunningCluster, runRoot } from "@tutti/admin/cluster";

/** Maximum size of a log; one older log is kept. */
const LOG_BYTES_MAX = 33_554_432;

export class RunDirectory {
  readonly path: string;
  readonly logs: string;

  /** Removes the files of an earlier run on this port: its store belongs to leases and credentials that are void. */
  constructor(name: string) {
    this.path = join(runRoot(), name);
    this.logs = join(this.path, "logs");
    rmSync(this.path, { recursive: true, force: true });
    makeFolder(this.path);
    mkdirSync(this.logs);
  }

  /** Writes the cluster's address for other commands, by renaming into place, so that they never read half of it. */
  writeState(state: RunningCluster): void {
    const path = join(this.path, "state.json");
    writeFileSync(`${path}.new`, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }

  clearState(): void {
    rmSync(join(this.path, "state.json"), { force: true });
  }

  openLog(name: string): LogFile {
    return new LogFile(join(this.logs, `${name}.log`));
  }
}

/** Reasons that lie with the folder, and what to do. Others are this program's mistakes, and keep their stack. */
const REMEDIES: ReadonlyMap<string | undefined, string> = new Map([
  ["ENOSPC", "free some space there"],
  ["EDQUOT", "raise this user's quota there"],
  ["EROFS", "its file system is read-only"],
  ["EACCES", "this user may not write there"],
  ["EPERM", "this user may not write there"],
  ["ENOTDIR", "a file is in its way"],
  ["EEXIST", "a file is in its way"],
  ["ENOENT", "it was removed, or its file system has no place for folders"],
]);

/** Explains an error of writing into the folder of a run. @returns the error itself, if it is another one */
export function explainUnwritable(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  const remedy = REMEDIES.get(code);
  if (remedy === undefined || !isOfRuns(error as NodeJS.ErrnoException)) return error;
  const text = `${runRoot()} can't be written (${message}): ${remedy}, or name another folder with TUTTI_RUN_DIR`;
  return new CommandError(text, undefined, error);
}

/** Other files and ports fail with the same codes. An error of writing into an open file names no path. */
const isOfRuns = ({ path, syscall }: NodeJS.ErrnoException): boolean =>
  path === undefined ? syscall === "write" : `${resolve(path)}${sep}`.startsWith(`${runRoot()}${sep}`);

/**
 * The log file of one process, written synchronously: buffered lines would be lost in the crash that they explain.
 * Lines that the disk does not accept are dropped and counted, and the file says how many are missing once it can be
 * written again. A failed write never ends the process.
 */
export class LogFile {
  readonly #path: string;
  readonly #writeSync: typeof writeSync;
  /** Undefined: not opened yet, closed, or it could not be opened. */
  #file: number | undefined;
  #bytes = 0;
  #dropped = 0;
  /** Whether the file ends within a line. */
  #isTorn = false;
  #isClosed = false;

  /** @param write - replaces the disk in tests */
  constructor(path: string, write: typeof writeSync = writeSync) {
    this.#path = path;
    this.#writeSync = write;
  }

  /** Never throws. */
  write(line: string): void {
    if (this.#isClosed) return;
    try {
      if (this.#bytes > LOG_BYTES_MAX) this.#rotate();
      this.#file ??= openSync(this.#path, "a", 0o600);
      if (this.#dropped > 0)
        this.#append(this.#file, `${this.#dropped} lines are missing here: they could not be written`);
      this.#dropped = 0;
      this.#append(this.#file, line);
    } catch {
      this.#dropped++;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#closeFile();
  }

  /** @throws {Error} the disk is full, perhaps in the middle of the line */
  #append(file: number, line: string): void {
    const bytes = Buffer.from(`${this.#isTorn ? "\n" : ""}${line}\n`);
    let written = 0;
    try {
      while (written < bytes.length) written += this.#writeSync(file, bytes, written);
    } finally {
      this.#bytes += written;
      if (written > 0) this.#isTorn = written < bytes.length;
    }
  }

  #rotate(): void {
    this.#closeFile();
    renameSync(this.#path, `${this.#path}.1`);
    this.#bytes = 0;
    this.#isTorn = false;
  }

  #closeFile(): void {
    const file = this.#file;
    // Reset first: the number may belong to another file once it is closed.
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }
}
