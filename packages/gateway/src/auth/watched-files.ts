/**
 * What files say that may change while this process runs: certificates that are renewed, keys that are made and
 * revoked. Their times are looked at, rather than their folder watched, so that a rename into place and a mounted
 * secret count as well.
 */
import { readFileSync, unwatchFile, watchFile } from "node:fs";
import { TuttiError } from "@tutti/protocol";

const LOOK_EVERY_MS = 1_000;

export interface WatchedOptions<Value> {
  readonly paths: readonly string[];
  /** From the files' texts. What it throws keeps the value that is there. */
  readonly read: (texts: readonly string[]) => Value;
  readonly onChange?: (value: Value) => void;
  /** What is new can't be used. */
  readonly onTrouble: (text: string) => void;
  readonly lookEveryMs?: number | undefined;
}

export class WatchedFiles<Value> {
  readonly #options: WatchedOptions<Value>;
  readonly #look = (): void => this.#reload();
  #current: Value;

  /** @throws {TuttiError} naming the files, which can't be used as they are */
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
      // Of a pair that is renewed one file comes first.
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
