/**
 * Runs jobs on threads of one kind, one at a time on each.
 *
 *   FW1. Applications share the threads' time: a heavy sender waits for itself, and where too much waits, its newest
 *        job is refused.
 *   FW2. An infeasible job is refused before it begins.
 *   FW3. A thread that dies fails its own job alone.
 */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { FairQueue } from "@tutti/collections";
import { type ErrorCode, TuttiError } from "@tutti/protocol";

/** Default number of threads: one processor is left to the caller's thread. */
const threadsOfMachine = (): number => Math.max(1, Math.min(4, availableParallelism() - 1));

/** An error as it crosses threads, by code and text: a class does not survive the transfer. */
export interface Failed {
  readonly code: ErrorCode;
  readonly text: string;
}

export interface Job {
  /** The application. */
  readonly owner: string;
  /** Called when the job's turn has come. */
  readonly isTooLate: () => boolean;
  /**
   * Message for the thread, with the buffers that it takes over instead of copies. Called when the job's turn has come.
   */
  readonly message: () => readonly [message: unknown, handedOver: readonly ArrayBuffer[]];
  /** Room that it takes among the jobs that wait or run. Default: 1. */
  readonly weight?: number;
}

export interface FairWorkersOptions {
  readonly script: URL;
  readonly name: string;
  /** Largest number of jobs that wait or run, by weight. */
  readonly jobsMax: number;
  /** Text of the refusal beyond that number. */
  readonly full: string;
  /** Default: all processors but one, at most 4. */
  readonly threads?: number;
}

type Done<Answer> = (outcome: Answer | TuttiError) => void;
interface Entry<Answer> extends Job {
  readonly done: Done<Answer>;
}
interface Thread<Answer> {
  readonly worker: Worker;
  running: Entry<Answer> | undefined;
  startedAt: number;
}

export class FairWorkers<Answer extends object> {
  readonly #options: FairWorkersOptions;
  readonly #threadsMax: number;
  readonly #threads = new Set<Thread<Answer>>();
  readonly #waiting = new FairQueue<Entry<Answer>>();
  #running = 0;
  #used = 0;
  #isOnline = false;

  constructor(options: FairWorkersOptions) {
    this.#options = options;
    this.#threadsMax = options.threads ?? threadsOfMachine();
  }

  /** Whether a thread has started: a job need not wait for that. The first is started by asking. */
  get isOnline(): boolean {
    if (this.#threads.size === 0) this.#start();
    return this.#isOnline;
  }

  /** @param done - called once, perhaps in the same turn */
  run(job: Job, done: Done<Answer>): void {
    const { weight = 1 } = job;
    while (this.#used + weight > this.#options.jobsMax) {
      const full = new TuttiError("TUTTI_OVERLOADED", this.#options.full, { retryAfterMs: 50 });
      const pushedOut = this.#waiting.makeRoom(job.owner);
      if (pushedOut === undefined) return done(full);
      pushedOut.done(full);
    }
    this.#used += weight;
    const ended: Done<Answer> = (outcome) => {
      this.#used -= weight;
      done(outcome);
    };
    this.#waiting.push(job.owner, { ...job, done: ended });
    this.#next();
  }

  async close(why: string): Promise<void> {
    const threads = [...this.#threads];
    this.#threads.clear();
    const left = [...threads.flatMap(({ running }) => running ?? []), ...this.#waiting.clear()];
    this.#running = 0;
    for (const { done } of left) done(new TuttiError("TUTTI_INTERNAL", why));
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  #next(): void {
    while (this.#waiting.size > 0 && this.#running < this.#threadsMax) {
      const job = this.#waiting.shift()!;
      if (job.isTooLate()) job.done(tooLate());
      else this.#begin(job);
    }
  }

  #begin(job: Entry<Answer>): void {
    try {
      const thread = [...this.#threads].find(({ running }) => running === undefined) ?? this.#start();
      const [message, handedOver] = job.message();
      thread.worker.postMessage(message, handedOver);
      thread.running = job;
      thread.startedAt = performance.now();
      this.#running++;
    } catch (cause) {
      // No thread could start, or the message could not be sent: nothing waits for this job.
      job.done(new TuttiError("TUTTI_INTERNAL", `${this.#options.name} can't be done: ${String(cause)}`, { cause }));
    }
  }

  #start(): Thread<Answer> {
    const { script, name } = this.#options;
    const thread: Thread<Answer> = { worker: new Worker(script, { name }), running: undefined, startedAt: 0 };
    const end = (outcome: Answer | TuttiError): void => {
      const job = thread.running;
      if (job === undefined || !this.#threads.has(thread)) return;
      thread.running = undefined;
      this.#running--;
      this.#waiting.charge(job.owner, performance.now() - thread.startedAt);
      job.done(outcome);
      this.#next();
    };
    thread.worker.on("message", (answer: Answer | Failed) =>
      end(isFailed(answer) ? new TuttiError(answer.code, answer.text) : answer),
    );
    thread.worker.on("error", (error) => {
      const job = thread.running;
      if (!this.#threads.delete(thread) || job === undefined) return;
      this.#running--;
      this.#waiting.charge(job.owner, performance.now() - thread.startedAt);
      job.done(new TuttiError("TUTTI_INTERNAL", `${name} broke down: ${error.message}`));
      this.#next();
    });
    thread.worker.once("online", () => (this.#isOnline = true));
    thread.worker.unref();
    this.#threads.add(thread);
    return thread;
  }
}

const isFailed = (answer: object): answer is Failed => "code" in answer;
const tooLate = (): TuttiError =>
  new TuttiError("TUTTI_DEADLINE_EXCEEDED", "a long body could not be read within its deadline: send binary tensors");
