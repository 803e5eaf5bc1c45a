/** `.tutti/run/<port>/`: what one `tutti up` keeps while it runs. The credentials in it are for its owner alone. */
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type RunningCluster, runRoot } from "../cluster.ts";

/** A log grows no further than this; the one before it is kept. */
const LOG_BYTES_MAX = 33_554_432;

export class RunDirectory {
  readonly path: string;
  readonly logs: string;

  /** Empties what an earlier run on this port left: its store belongs to leases and credentials that are gone. */
  constructor(name: string) {
    this.path = join(runRoot(), name);
    this.logs = join(this.path, "logs");
    rmSync(this.path, { recursive: true, force: true });
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    mkdirSync(this.logs);
  }

  /** Tells other commands where the cluster is; renamed into place, so that they never read half of it. */
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

/** Lines of one process. Synchronous: a log that is written later is lost with the crash that it was about. */
export class LogFile {
  readonly #path: string;
  #file: number;
  #bytes = 0;

  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, "a", 0o600);
  }

  write(line: string): void {
    if (this.#bytes > LOG_BYTES_MAX) this.#rotate();
    this.#bytes += writeSync(this.#file, `${line}\n`);
  }

  close(): void {
    closeSync(this.#file);
  }

  #rotate(): void {
    closeSync(this.#file);
    renameSync(this.#path, `${this.#path}.1`);
    this.#file = openSync(this.#path, "a", 0o600);
    this.#bytes = 0;
  }
}
