import type { QueuedJob } from "@tutti/ports/jobs";
import type { TuttiError } from "@tutti/protocol";

/** Jobs that a runner remembers; beyond, those that failed first run again. */
export const UNBURIED_KNOWN_MAX = 65_536;

interface Unburied {
  readonly error: TuttiError;
  /** Its publisher finds the failure where the result would be. */
  readonly isTold: boolean;
}
type Place = Pick<QueuedJob, "seq" | "submittedAtMs">;

/**
 * Jobs that failed for good and wait in the queue, since their application has no room for their dead letters. The
 * runner remembers why, so that such a job takes no accelerator time at each delivery. Each runner remembers its own.
 */
export class UnburiedJobs {
  readonly #jobs = new Map<string, Unburied>();

  get size(): number {
    return this.#jobs.size;
  }

  get(job: Place): Unburied | undefined {
    return this.#jobs.get(keyOf(job));
  }

  note(job: Place, failure: Unburied): void {
    const key = keyOf(job);
    this.#jobs.delete(key);
    this.#jobs.set(key, failure);
    const [oldest] = this.#jobs.keys();
    if (this.#jobs.size > UNBURIED_KNOWN_MAX && oldest !== undefined) this.#jobs.delete(oldest);
  }

  forget(job: Place): void {
    this.#jobs.delete(keyOf(job));
  }
}

/** Numbers begin anew in a queue that was removed and made again. */
const keyOf = ({ seq, submittedAtMs }: Place): string => `${seq}.${submittedAtMs}`;
