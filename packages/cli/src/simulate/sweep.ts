/**
 * Runs many simulations on all cores. Each is deterministic and shares nothing, so results depend only on the
 * scenarios, not on the number of workers or the assignment.
 */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { DetailedRun, GoodputBound, Scenario } from "@tutti/simulator";
import { toPortable } from "@tutti/sim-report/scenarios";
import type { FromSweepWorker, ToSweepWorker } from "./sweep-messages.ts";

export interface SweepOptions {
  /** Number of threads. Default: the number of cores. */
  readonly workers?: number;
}

interface Task {
  readonly message: () => ToSweepWorker;
  readonly done: (answer: FromSweepWorker) => void;
  readonly failed: (error: Error) => void;
}

/** A pool of worker threads, started on demand. Close it, or the process doesn't end. */
export class Sweep {
  readonly workers: number;
  readonly #waiting: Task[] = [];
  readonly #idle: Worker[] = [];
  readonly #running = new Map<Worker, Task | undefined>();
  #closed = false;

  constructor({ workers }: SweepOptions = {}) {
    this.workers = Math.max(1, workers ?? availableParallelism());
  }

  /** @throws {Error} of the simulation, such as a policy that doesn't exist */
  async run(scenario: Scenario): Promise<DetailedRun> {
    const answer = await this.#ask(() => ({ kind: "run", scenario: toPortable(scenario) }));
    if (answer.kind !== "run") throw new Error(textOf(answer));
    return answer.run;
  }

  async bound(scenario: Scenario): Promise<GoodputBound> {
    const answer = await this.#ask(() => ({ kind: "bound", scenario: toPortable(scenario) }));
    if (answer.kind !== "bound") throw new Error(textOf(answer));
    return answer.bound;
  }

  async nonPreemptive(scenario: Scenario, clairvoyantRps: number): Promise<number> {
    const answer = await this.#ask(() => ({ kind: "non-preemptive", scenario: toPortable(scenario), clairvoyantRps }));
    if (answer.kind !== "non-preemptive") throw new Error(textOf(answer));
    return answer.rate;
  }

  /**
   * Runs all scenarios and returns the results in their order. @param onDone - called after each with the number done
   */
  runAll(scenarios: readonly Scenario[], onDone?: (done: number) => void): Promise<DetailedRun[]> {
    let done = 0;
    return Promise.all(
      scenarios.map(async (scenario) => {
        const run = await this.run(scenario);
        onDone?.(++done);
        return run;
      }),
    );
  }

  /** Stops the workers; waiting and running tasks fail. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const task of this.#waiting.splice(0)) task.failed(new Error("the sweep was stopped"));
    await Promise.all(Array.from(this.#running.keys(), (worker) => worker.terminate()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @param message - made only when its turn comes, since thousands of scenarios may wait */
  #ask(message: () => ToSweepWorker): Promise<FromSweepWorker> {
    return new Promise((done, failed) => {
      if (this.#closed) return failed(new Error("the sweep was stopped"));
      this.#waiting.push({ message, done, failed });
      this.#next();
    });
  }

  #next(): void {
    if (this.#waiting.length === 0) return;
    const worker = this.#idle.pop() ?? (this.#running.size < this.workers ? this.#start() : undefined);
    if (worker === undefined) return;
    const task = this.#waiting.shift()!;
    this.#running.set(worker, task);
    worker.postMessage(task.message());
  }

  #start(): Worker {
    const worker = new Worker(new URL("./sweep-worker.ts", import.meta.url), { name: "sweep" });
    this.#running.set(worker, undefined);
    worker.on("message", (answer: FromSweepWorker) => {
      const task = this.#running.get(worker);
      this.#running.set(worker, undefined);
      this.#idle.push(worker);
      this.#next();
      task?.done(answer);
    });
    worker.on("error", (error) => this.#lost(worker, error instanceof Error ? error : new Error(String(error))));
    worker.on("exit", () => this.#lost(worker, new Error("a worker of the sweep ended")));
    return worker;
  }

  /** Removes a worker and fails its task. An error is followed by an exit: only the first has an effect. */
  #lost(worker: Worker, error: Error): void {
    const task = this.#running.get(worker);
    if (!this.#running.delete(worker)) return;
    const place = this.#idle.indexOf(worker);
    if (place >= 0) this.#idle.splice(place, 1);
    task?.failed(error);
    if (!this.#closed) this.#next();
  }
}

const textOf = (answer: FromSweepWorker): string =>
  answer.kind === "failed" ? answer.text : "an answer to another question";
