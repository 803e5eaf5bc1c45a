import { type CandidateOffered, MODELS_MAX } from "@tutti/protocol";
import { type ActorKey, BUCKETS_MAX, type ThreadId, modelNumberOf } from "@tutti/units";

/** Bound of the threads: models times buckets. */
export const THREADS_MAX = MODELS_MAX * BUCKETS_MAX;

/** The batcher that owns the candidate of each thread: the sender of an offer under the newest term. */
export class CandidateOwners {
  readonly #batchers = new Map<ThreadId, { readonly batcher: ActorKey; readonly term: number }>();

  of(thread: ThreadId): ActorKey | undefined {
    return this.#batchers.get(thread)?.batcher;
  }

  batchers(): ReadonlySet<ActorKey> {
    return new Set([...this.#batchers.values()].map(({ batcher }) => batcher));
  }

  /** @returns whether the offer counts: a batcher that lost the lease may still send offers */
  note({ thread, term }: CandidateOffered, batcher: ActorKey): boolean {
    const known = this.#batchers.get(thread);
    if (known === undefined ? this.#batchers.size >= THREADS_MAX : term < known.term) return false; // T7
    this.#batchers.set(thread, { batcher, term });
    return true;
  }

  /** @returns the threads of a model, whose next offer counts under any term */
  forget(modelNumber: number): ThreadId[] {
    const threads = [...this.#batchers.keys()].filter((thread) => modelNumberOf(thread) === modelNumber);
    for (const thread of threads) this.#batchers.delete(thread);
    return threads;
  }

  /** @returns the threads that have no batcher any more */
  left(batcher: ActorKey): ThreadId[] {
    const threads = [...this.#batchers].filter(([, offerer]) => offerer.batcher === batcher).map(([thread]) => thread);
    for (const thread of threads) this.#batchers.delete(thread);
    return threads;
  }
}
