import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { FairQueue } from "@tutti/collections";
import { TuttiError } from "@tutti/protocol";
import type { StepCall, StepOutcome, Steps } from "@tutti/ports/steps";
import type { FromWorker, StepProblem, ToWorker, WorkerStart } from "./messages.ts";

/** Calls that wait for a thread; beyond, OVERLOADED. */
export const STEPS_WAITING_MAX = 256;
/** Longest call; then its thread is ended, since a function can't be stopped otherwise. */
const CALL_MS_MAX = 10_000;
const RESTART_MS = 1_000;
/** Time limit for loading modules, which may bring whole libraries. */
const LOAD_MS = 60_000;
const UNLOADABLE = "the functions of pipelines can't be loaded";

export interface WorkerStepsOptions {
  /** The operator's folder: the only place that modules are loaded from. */
  readonly folder: string;
  /** All functions that may be called: `./module.ts#name`. */
  readonly functions: readonly string[];
  /** Threads. Default: half of the processors, at most 4, and one more that no application takes beside another. */
  readonly threads?: number;
  readonly callMsMax?: number;
  readonly waitingMax?: number;
}

/** Declared functions that can't be loaded: all of them, each with what to do. */
export class StepsMissingError extends TuttiError {
  readonly problems: readonly StepProblem[];

  constructor(problems: readonly StepProblem[]) {
    const texts = problems.map(({ text }) => text).join("; ");
    super("TUTTI_INVALID_INPUT", `${UNLOADABLE}: ${texts}`);
    this.problems = problems;
  }
}

type Done = (outcome: StepOutcome | TuttiError) => void;
interface Job {
  readonly call: StepCall;
  readonly done: Done;
  isGivenUp: boolean;
}

/**
 * Runs the functions of pipelines on threads beside the ingress, one call at a time on each.
 *
 *   STEPS-1. Applications share the threads by the time that their calls take: no call waits for all calls of another
 *            application.
 *   STEPS-2. The last free thread is only for an application that has no call running, so that long calls of one
 *            application leave a thread to the others.
 *   STEPS-3. A thread whose call takes too long, or that dies, is ended and started anew; only its call is refused.
 */
export class WorkerSteps implements Steps {
  readonly #waitingMax: number;
  readonly #waiting = new FairQueue<Job>();
  readonly #threads: StepThread[];

  /** Use `start`: threads that have not loaded their modules yet would make the first calls wait. */
  private constructor(options: WorkerStepsOptions) {
    this.#waitingMax = options.waitingMax ?? STEPS_WAITING_MAX;
    const count = options.threads ?? Math.max(1, Math.min(4, Math.floor(availableParallelism() / 2))) + 1;
    const onFree = (): void => this.#next();
    const onEnd = (app: string, tookMs: number): void => this.#waiting.charge(app, tookMs);
    this.#threads = Array.from({ length: count }, () => new StepThread(options, { onFree, onEnd }));
  }

  /**
   * @throws {StepsMissingError} a declared module or function can't be loaded
   * @throws {TuttiError} INVALID_INPUT: loading takes too long, or ends the thread
   */
  static async start(options: WorkerStepsOptions): Promise<WorkerSteps> {
    const steps = new WorkerSteps(options);
    try {
      await Promise.all(steps.#threads.map((thread) => thread.start()));
    } catch (error) {
      await steps.close();
      throw error;
    }
    return steps;
  }

  run(call: StepCall, done: Done): () => void {
    const { app } = call;
    if (this.#waiting.size >= this.#waitingMax) {
      const text = `${this.#waiting.size} calls of pipelines' functions wait already (STEPS_WAITING_MAX)`;
      const full = new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 50 });
      const pushedOut = this.#waiting.makeRoom(app);
      (pushedOut?.done ?? done)(full);
      if (pushedOut === undefined) return () => undefined;
    }
    const job: Job = { call, done, isGivenUp: false };
    this.#waiting.push(app, job);
    this.#next();
    return () => {
      job.isGivenUp = true;
      if (!this.#waiting.remove(app, job)) this.#threads.find((thread) => thread.running === job)?.giveUp();
    };
  }

  async close(): Promise<void> {
    for (const { call, done } of this.#waiting.clear()) done(stopping(call));
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  #next(): void {
    for (;;) {
      const free = this.#threads.filter(({ isFree }) => isFree);
      const isLast = free.length === 1;
      const job = free.length > 0 && this.#waiting.shift((app) => !isLast || !this.#runs(app));
      if (!job) return;
      free[0]!.run(job);
    }
  }

  #runs(app: string): boolean {
    return this.#threads.some(({ running }) => running?.call.app === app);
  }
}

interface ThreadEvents {
  readonly onFree: () => void;
  readonly onEnd: (app: string, tookMs: number) => void;
}

class StepThread {
  readonly #options: WorkerStepsOptions;
  readonly #events: ThreadEvents;
  readonly #callMsMax: number;
  #worker: Worker | undefined;
  #job: Job | undefined;
  #startedAt = 0;
  #lastId = 0;
  #timer: NodeJS.Timeout | undefined;
  #isLoaded = false;
  #isClosed = false;

  constructor(options: WorkerStepsOptions, events: ThreadEvents) {
    this.#options = options;
    this.#events = events;
    this.#callMsMax = options.callMsMax ?? CALL_MS_MAX;
  }

  get isFree(): boolean {
    return this.#isLoaded && this.#job === undefined;
  }

  get running(): Job | undefined {
    return this.#job;
  }

  start(): Promise<void> {
    const { folder, functions } = this.#options;
    const workerData: WorkerStart = { folder, functions };
    return new Promise((resolve, reject) => {
      const worker = new Worker(new URL("./step-worker.ts", import.meta.url), { name: "pipeline", workerData });
      this.#worker = worker;
      const fail = (text: string, error = new TuttiError("TUTTI_INVALID_INPUT", `${UNLOADABLE}: ${text}`)): void => {
        clearTimeout(loading);
        reject(error);
        this.#lost(worker, text);
      };
      const loading = setTimeout(() => fail(`loading takes longer than ${LOAD_MS / 1000} s`), LOAD_MS);
      worker.on("message", (message: FromWorker) => {
        if ("id" in message) return this.#onAnswer(message);
        if (!message.loaded) return fail("its functions are missing", new StepsMissingError(message.problems));
        clearTimeout(loading);
        this.#isLoaded = true;
        resolve();
        this.#events.onFree();
      });
      worker.on("error", (error) => fail(error.message));
      worker.on("exit", () => fail("its thread ended"));
      worker.unref();
    });
  }

  run(job: Job): void {
    this.#job = job;
    this.#startedAt = performance.now();
    const id = ++this.#lastId;
    this.#timer = setTimeout(() => {
      this.#lost(this.#worker!, `it took longer than ${this.#callMsMax / 1000} s`);
    }, this.#callMsMax);
    try {
      this.#worker!.postMessage({ id, call: job.call } satisfies ToWorker);
    } catch (error) {
      // A call that can't be cloned would otherwise hold the thread until its time is over.
      this.#settle(
        ({ call }) => new TuttiError("TUTTI_INTERNAL", `${call.function} can't be called: ${String(error)}`),
      );
    }
  }

  /** Its call goes on until its function notices: the thread is not free before. */
  giveUp(): void {
    this.#worker?.postMessage({ givenUp: this.#lastId } satisfies ToWorker);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#settle((job) => stopping(job.call));
    const worker = this.#worker;
    this.#worker = undefined;
    this.#isLoaded = false;
    worker?.removeAllListeners("exit");
    await worker?.terminate();
  }

  #onAnswer(answer: Extract<FromWorker, { id: number }>): void {
    if (answer.id !== this.#lastId) return;
    this.#settle(() => ("outcome" in answer ? answer.outcome : new TuttiError(answer.code, answer.text)));
    this.#events.onFree();
  }

  #settle(outcome: (job: Job) => StepOutcome | TuttiError): void {
    clearTimeout(this.#timer);
    const job = this.#job;
    this.#job = undefined;
    if (job === undefined) return;
    this.#events.onEnd(job.call.app, performance.now() - this.#startedAt);
    if (!job.isGivenUp) job.done(outcome(job));
  }

  /** Ends an unusable thread: its call is refused, and a new thread takes its place. */
  #lost(worker: Worker, why: string): void {
    if (this.#worker !== worker) return;
    const wasLoaded = this.#isLoaded;
    this.#worker = undefined;
    this.#isLoaded = false;
    void worker.terminate();
    this.#settle(
      ({ call }) =>
        new TuttiError("TUTTI_INTERNAL", `${call.function} of pipeline "${call.pipeline}" was ended: ${why}`),
    );
    if (wasLoaded && !this.#isClosed) this.#restart();
  }

  /**
   * Starts a new thread. If loading fails it retries after RESTART_MS: the modules loaded before, so their files may be
   * changing.
   */
  #restart(): void {
    this.start().catch(() => {
      if (!this.#isClosed) setTimeout(() => this.#restart(), RESTART_MS).unref();
    });
  }
}

const stopping = (call: StepCall): TuttiError =>
  new TuttiError(
    "TUTTI_UNAVAILABLE",
    `${call.function} of pipeline "${call.pipeline}" was not run: the ingress is stopping`,
  );
