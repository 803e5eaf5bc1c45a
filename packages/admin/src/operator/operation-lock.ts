/**
 * A lock that lets at most one operator restart or drain at a time. Two operators who both see a whole cluster could
 * otherwise take down a role's last two actors together. The lock is an entry of the store, taken by compare-and-set
 * and renewed while its holder works; an entry that is no longer renewed is taken over.
 */
import { randomUUID } from "node:crypto";
import { BUCKET, OperationLease, TuttiError, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import { newerForm, readStored, toJson, writeStored } from "@tutti/wire";
import { CommandError } from "../failure.ts";

export interface LockTimes {
  readonly renewMs: number;
  /** An entry unchanged for so long has lost its holder. */
  readonly staleMs: number;
  wait(ms: number): Promise<void>;
}

const REAL: LockTimes = {
  renewMs: 1_500,
  staleMs: 5_000,
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

type Held = Omit<OperationLease, "id">;
type Entered = Required<OperationLease>;

/** Attempts at a store that does not answer. */
const ATTEMPTS_MAX = 4;

export class OperationLock {
  readonly #store: Store;
  readonly #value: Uint8Array;
  readonly #id: string;
  readonly #times: LockTimes;
  #revision: number;
  #over = false;
  #lost = false;

  private constructor(store: Store, held: Entered, revision: number, times: LockTimes) {
    this.#store = store;
    this.#value = writeStored(OperationLease, held);
    this.#id = held.id;
    this.#revision = revision;
    this.#times = times;
  }

  /** @throws {CommandError} another operator is at work */
  static async take(
    store: Store,
    held: Held,
    onWait: (text: string) => void,
    times: LockTimes = REAL,
  ): Promise<OperationLock> {
    const entered: Entered = { ...held, id: randomUUID() };
    for (let attempt = 1; ; attempt++) {
      try {
        const revision = await enter(store, entered, onWait, times);
        if (revision === undefined) continue; // another operator was faster
        const lock = new OperationLock(store, entered, revision, times);
        void lock.#renew();
        return lock;
      } catch (error) {
        if (!(error instanceof TuttiError) || attempt >= ATTEMPTS_MAX) throw error;
        await times.wait(times.renewMs);
      }
    }
  }

  /** @throws {CommandError} another operator took the lock, because it was not renewed for too long */
  assertHeld(): void {
    if (this.#lost) throw new CommandError("another operator has taken over meanwhile: nothing more is restarted");
  }

  async release(): Promise<void> {
    this.#over = true;
    if (!this.#lost)
      await update(this.#store, toJson({ form: OperationLease.writtenForm }), this.#revision).catch(() => undefined);
  }

  /** Reads the revision of a renewal that the store accepted, but whose answer was lost. */
  async #ownRevision(): Promise<number | undefined> {
    const { revision, other } = await read(this.#store);
    return other?.id === this.#id ? revision : undefined;
  }

  async #renew(): Promise<void> {
    for (;;) {
      await this.#times.wait(this.#times.renewMs);
      if (this.#over) return;
      try {
        const revision = (await update(this.#store, this.#value, this.#revision)) ?? (await this.#ownRevision());
        if (this.#over) return;
        this.#lost = revision === undefined;
        if (revision === undefined) return;
        this.#revision = revision;
      } catch {
        // Retry later: while the store does not answer, no other operator can take the lock either.
      }
    }
  }
}

async function enter(
  store: Store,
  entered: Entered,
  onWait: (text: string) => void,
  times: LockTimes,
): Promise<number | undefined> {
  const { revision, other } = await read(store);
  if (other?.id === entered.id) return revision;
  if (other !== undefined) {
    onWait(`${other.who} was at work (${other.what}); waits to see whether that still goes on`);
    await waitUntilStale(store, revision, other, times);
  }
  return update(store, writeStored(OperationLease, entered), revision);
}

async function waitUntilStale(store: Store, revision: number, other: Held, times: LockTimes): Promise<void> {
  const steps = 10;
  for (let i = 0; i < steps; i++) {
    await times.wait(times.staleMs / steps);
    const now = await read(store);
    if (now.revision === revision) continue;
    if (now.other === undefined) return; // it was released
    throw new CommandError(
      `${other.who} is at work (${other.what}): one at a time, so that no role loses its last two actors at once`,
    );
  }
}

async function read(store: Store): Promise<{ revision: number; other: OperationLease | undefined }> {
  const entry = await new Promise<Parameters<Parameters<Store["get"]>[2]>[0]>((resolve) =>
    store.get(BUCKET.leases, leaseKeys.operation, resolve),
  );
  if (entry === "absent") return { revision: 0, other: undefined };
  if (isStoreFailure(entry)) throw new TuttiError("TUTTI_UNAVAILABLE", `the store does not answer: ${entry.failure}`);
  const newer = newerForm(entry.value, OperationLease);
  const other = newer === undefined ? readStored(entry.value, OperationLease) : { who: "an operator", what: newer };
  return { revision: entry.revision, other };
}

/** @returns the new revision; undefined: another operator was faster */
function update(store: Store, value: Uint8Array, revision: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    store.update(BUCKET.leases, leaseKeys.operation, value, revision, (result) => {
      if (result === "conflict") resolve(undefined);
      else if (!isStoreFailure(result)) resolve(result.revision);
      else
        reject(
          new TuttiError(
            "TUTTI_UNAVAILABLE",
            `${leaseKeys.operation} can't be written (${result.failure}): are these the credentials of admin?`,
          ),
        );
    });
  });
}
