/**
 * A value read from files that may change while this process runs: renewed certificates, new and revoked keys. It polls
 * the files' times instead of watching their folder, so that a rename into place and a mounted secret count as well.
 */
import { readFileSync, unwatchFile, watchFile } from "node:fs";
import { TuttiError } from "@tutti/protocol";

const LOOK_EVERY_MS = 1_000;

export interface WatchedOptions<Value> {
  readonly paths: readonly string[];
  /** Makes the value from the files' texts. If it throws, the current value stays. */
  readonly read: (texts: readonly string[]) => Value;
  readonly onChange?: (value: Value) => void;
  /** Called when the changed files can't be used. */
  readonly onTrouble: (text: string) => void;
  readonly lookEveryMs?: number | undefined;
}

export class WatchedFiles<Value> {
  readonly #options: WatchedOptions<Value>;
  readonly #look = (): void => this.#reload();
  #current: Value;

  /** @throws {TuttiError} naming the files that can't be used */
  constructor(options: WatchedOptions<Value>) {
    this.#options = options;
    this.#current = this.#load();
    const interval = options.lookEveryMs ?? LOOK_EVERY_MS;
    for (const path of options.paths) watchFile(path, { interval, persistent: false }, this.#look);
  }

  get current(): Value {
    return this.#current;
  }

  stop(): void {
    for (const path of this.#options.paths) unwatchFile(path, this.#look);
  }

  #reload(): void {
    try {
      this.#current = this.#load();
    } catch (error) {
      // The two files of a pair change one after the other, so they may not match for a moment.
      return this.#options.onTrouble((error as Error).message);
    }
    this.#options.onChange?.(this.#current);
  }

  #load(): Value {
    const { paths, read } = this.#options;
    try {
      return read(paths.map((path) => readFileSync(path, "utf8")));
    } catch (cause) {
      const text = `${paths.join(", ")} can't be used: ${(cause as Error).message}`;
      throw new TuttiError("TUTTI_INVALID_INPUT", text, { cause });
    }
  }
}
