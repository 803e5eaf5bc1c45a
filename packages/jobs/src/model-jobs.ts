import type { JobQueue, QueuedJob } from "@tutti/ports/jobs";
import type { Logger } from "@tutti/ports/telemetry";
import { REQUEST_BYTES_MAX } from "@tutti/protocol";
import { JOBS_PENDING_MAX } from "./job-window.ts";

/** Jobs that one fetch asks for at most: with large inputs they are tens of megabytes. */
const FETCHED_MAX = 16;
/** The least that the server lets a fetch wait for jobs. */
const FETCH_WAIT_MS = 1_000;
const FAILED_PAUSE_MS = 1_000;

/** Room for the inputs of the jobs that a runner holds, whichever models they are for. */
export class InputRoom {
  readonly #bytesMax: number;
  readonly #waiting: (() => void)[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** How many jobs of any size fit beside what is held. */
  get jobs(): number {
    return Math.floor((this.#bytesMax - this.#bytes) / REQUEST_BYTES_MAX);
  }
  take(bytes: number): void {
    this.#bytes += bytes;
  }
  give(bytes: number): void {
    this.#bytes -= bytes;
    for (const go of this.#waiting.splice(0)) go();
  }
  /** Resolves when something was given back. */
  given(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

interface ModelJobsOptions {
  readonly model: string;
  readonly queue: JobQueue;
  readonly room: InputRoom;
  readonly log: Logger;
  /** Jobs of the model that this runner may hold; 0: none for now. */
  readonly window: () => number;
  /** Takes a job, and calls `ended` when it no longer holds its inputs. */
  readonly take: (job: QueuedJob, ended: () => void) => void;
}

/**
 * Fetches the jobs of one model while there are any, and holds no more of them than its window, so that the rest waits
 * in the queue, on disk, and not before the accelerators.
 */
export class ModelJobs {
  readonly #options: ModelJobsOptions;
  #isAllowed = false;
  #inFlight = 0;
  #isFetching = false;
  #isStopped = false;
  /** Jobs that the queue had at the last look, and that were not fetched since. */
  #left = 0;

  constructor(options: ModelJobsOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** The queue has so many jobs of this model, those in flight included. */
  look(queued: number): void {
    this.#left = queued - this.#inFlight;
    if (!this.#isFetching && !this.#isStopped && this.#left > 0) void this.#fetchAll();
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #fetchAll(): Promise<void> {
    const { model, log } = this.#options;
    this.#isFetching = true;
    try {
      while (this.#left > 0 && !this.#isStopped) if (!(await this.#fetch())) break;
    } catch (error) {
      this.#isAllowed = false; // perhaps the consumer is gone
      log.warn({ model, error: (error as Error).message }, "jobs could not be fetched");
      await new Promise((resolve) => setTimeout(resolve, FAILED_PAUSE_MS));
    }
    this.#isFetching = false;
  }

  /** @returns whether more may come at once */
  async #fetch(): Promise<boolean> {
    const { model, queue, room, window, take } = this.#options;
    const allowed = window();
    if (allowed === 0) return false;
    if (!this.#isAllowed) await queue.allow(model, JOBS_PENDING_MAX);
    this.#isAllowed = true;
    const count = Math.min(FETCHED_MAX, this.#left, allowed - this.#inFlight, room.jobs);
    if (count <= 0) {
      await room.given();
      return true;
    }
    const reserved = count * REQUEST_BYTES_MAX;
    room.take(reserved);
    try {
      const fetched = await queue.fetch(model, { count, waitMs: FETCH_WAIT_MS }, (job) => {
        this.#left--;
        if (this.#isStopped) return job.retry(0);
        const bytes = job.payload.byteLength;
        this.#inFlight++;
        room.take(bytes);
        take(job, () => {
          this.#inFlight--;
          room.give(bytes);
        });
      });
      // Fewer than asked for: other runners hold the others, or they wait for another try.
      return fetched === count;
    } finally {
      room.give(reserved);
    }
  }
}
