import type { StoredKind } from "@tutti/protocol";
import type { Entry } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { newerForm, readStored } from "@tutti/wire";

/** Most entries whose faults are remembered; beyond, the oldest one may be said again. */
const FAULTS_SAID = 1_024;

/**
 * Reads entries of the store. One that is unreadable or of a newer form is reported and ignored: it must not take the
 * others down (T8). An entry is reported once until it is readable again, since actors write some of them every second.
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
    const id = idOf(kind, key);
    const value = readStored(bytes, kind);
    if (value !== undefined && belongs(value)) {
      this.#said.delete(id);
      return value;
    }
    const why = newerForm(bytes, kind) ?? `it is no ${kind.kind}`;
    if (this.#said.get(id) === why) return undefined;
    this.#said.delete(id);
    if (this.#said.size >= FAULTS_SAID) this.#said.delete(this.#said.keys().next().value!);
    this.#said.set(id, why);
    this.#log.warn({ key, revision, why }, "ignored an entry that can't be read");
    return undefined;
  }

  /** The entry was deleted: its successor's fault is reported again. */
  forget(kind: StoredKind<unknown>, key: string): void {
    this.#said.delete(idOf(kind, key));
  }
}

/** Buckets have keys in common, so an entry is known by its kind too. */
const idOf = ({ kind }: StoredKind<unknown>, key: string): string => `${kind} ${key}`;
