import { type CandidateOffered, MODELS_MAX } from "@tutti/protocol";
import { type ActorKey, BUCKETS_MAX, type ThreadId, modelNumberOf } from "@tutti/units";

/** Models of every bucket. */
export const THREADS_MAX = MODELS_MAX * BUCKETS_MAX;

/** Which batcher offers for each thread: whoever does so under the newest term. */
export class CandidateOwners {
  readonly #batchers = new Map<ThreadId, { readonly batcher: ActorKey; readonly term: number }>();

  of(thread: ThreadId): ActorKey | undefined {
    return this.#batchers.get(thread)?.batcher;
  }

  /** @returns whether the offer counts: a batcher that lost the lease may still be talking */
  note({ thread, term }: CandidateOffered, batcher: ActorKey): boolean {
    const known = this.#batchers.get(thread);
    if (known === undefined ? this.#batchers.size >= THREADS_MAX : term < known.term) return false; // T7
    this.#batchers.set(thread, { batcher, term });
    return true;
  }

  /** @returns the threads of a model, whose next offer counts whatever its term */
  forget(modelNumber: number): ThreadId[] {
    const threads = [...this.#batchers.keys()].filter((thread) => modelNumberOf(thread) === modelNumber);
    for (const thread of threads) this.#batchers.delete(thread);
    return threads;
  }

  /** @returns the threads that nobody offers for any more */
  left(batcher: ActorKey): ThreadId[] {
    const threads = [...this.#batchers].filter(([, offerer]) => offerer.batcher === batcher).map(([thread]) => thread);
    for (const thread of threads) this.#batchers.delete(thread);
    return threads;
  }
}
