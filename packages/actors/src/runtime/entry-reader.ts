import type { StoredKind } from "@tutti/protocol";
import type { Entry } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { newerForm, readStored } from "@tutti/wire";

/** Most keys whose faults are remembered; beyond, a fault may be said again. */
const KEYS_SAID = 1_024;

/**
 * Reads entries of the store. One that is unreadable or of a newer form is reported and ignored: it must not take the
 * others down (T8). A key is reported once until it is readable again, since actors write some of them every second.
 */
export class EntryReader {
  readonly #log: Logger;
  readonly #said = new Map<string, string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param belongs - whether the value is the one that its key says. @returns undefined: the entry is ignored */
  read<T>(kind: StoredKind<T>, entry: Entry, belongs: (value: T) => boolean = () => true): T | undefined {
    const { key, value: bytes, revision } = entry;
    const value = readStored(bytes, kind);
    if (value !== undefined && belongs(value)) {
      this.#said.delete(key);
      return value;
    }
    const why = newerForm(bytes, kind) ?? `it is no ${kind.kind}`;
    if (this.#said.get(key) === why) return undefined;
    if (this.#said.size >= KEYS_SAID) this.#said.clear();
    this.#said.set(key, why);
    this.#log.warn({ key, revision, why }, "ignored an entry that can't be read");
    return undefined;
  }
}
