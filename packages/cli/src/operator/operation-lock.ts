/**
 * At most one operator restarts or drains at a time: two who each see that all is well could take a role's last two actors together. The lock is an entry of the
 * store, taken by compare-and-set and renewed while its holder works; one that is renewed no more is taken over.
 */
import { BUCKET, TuttiError, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/store";
import { fromJson, toJson } from "@tutti/wire";
import { CommandError } from "../failure.ts";

export interface LockTimes {
  readonly renewMs: number;
  /** Unchanged for so long, its holder is gone. */
  readonly staleMs: number;
  wait(ms: number): Promise<void>;
}

const REAL: LockTimes = {
  renewMs: 1_500,
  staleMs: 5_000,
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

interface Held {
  readonly who: string;
  readonly what: string;
}

export class OperationLock {
  readonly #store: Store;
  readonly #value: Uint8Array;
  readonly #times: LockTimes;
  #revision: number;
  #over = false;
  #lost = false;

  private constructor(store: Store, held: Held, revision: number, times: LockTimes) {
    this.#store = store;
    this.#value = toJson(held);
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
    for (;;) {
      const { revision, other } = await read(store);
      if (other !== undefined) {
        onWait(`${other.who} was at work (${other.what}); waits to see whether that still goes on`);
        await waitUntilStale(store, revision, other, times);
      }
      const taken = await update(store, toJson(held), revision);
      if (taken === undefined) continue; // someone else was faster
      const lock = new OperationLock(store, held, taken, times);
      void lock.#renew();
      return lock;
    }
  }

  /** @throws {CommandError} it was taken from us, because we were away for too long */
  assertHeld(): void {
    if (this.#lost) throw new CommandError("another operator has taken over meanwhile: nothing more is restarted");
  }

  async release(): Promise<void> {
    this.#over = true;
    if (!this.#lost) await update(this.#store, toJson({}), this.#revision).catch(() => undefined);
  }

  async #renew(): Promise<void> {
    for (;;) {
      await this.#times.wait(this.#times.renewMs);
      if (this.#over) return;
      try {
        const revision = await update(this.#store, this.#value, this.#revision);
        if (this.#over) return;
        if (revision === undefined) {
          this.#lost = true;
          return;
        }
        this.#revision = revision;
      } catch {
        // A store that does not answer now may answer the next time, and nobody else can take the lock meanwhile either.
      }
    }
  }
}

async function waitUntilStale(store: Store, revision: number, other: Held, times: LockTimes): Promise<void> {
  const steps = 10;
  for (let i = 0; i < steps; i++) {
    await times.wait(times.staleMs / steps);
    const now = await read(store);
    if (now.revision === revision) continue;
    if (now.other === undefined) return; // it was given back
    throw new CommandError(
      `${other.who} is at work (${other.what}): one at a time, so that no role loses its last two actors at once`,
    );
  }
}

async function read(store: Store): Promise<{ revision: number; other: Held | undefined }> {
  const entry = await new Promise<Parameters<Parameters<Store["get"]>[2]>[0]>((resolve) =>
    store.get(BUCKET.leases, leaseKeys.operation, resolve),
  );
  if (entry === "absent") return { revision: 0, other: undefined };
  if (isStoreFailure(entry)) throw new TuttiError("TUTTI_UNAVAILABLE", `the store does not answer: ${entry.failure}`);
  return { revision: entry.revision, other: heldIn(entry.value) };
}

function heldIn(value: Uint8Array): Held | undefined {
  try {
    const { who, what } = fromJson(value) as Partial<Held>;
    return typeof who === "string" ? { who, what: String(what) } : undefined;
  } catch {
    return undefined; // nobody can have meant that
  }
}

/** @returns the new revision, or undefined when someone else was faster */
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
