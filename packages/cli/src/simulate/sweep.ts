/**
 * Many simulations on all cores. Each is deterministic by itself and shares nothing, so results don't depend on the
 * number of workers or on who runs what: only on the scenarios.
 */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { DetailedRun, GoodputBound, Scenario } from "@tutti/simulator";
import { toPortable } from "./portable-scenario.ts";
import type { FromSweepWorker, ToSweepWorker } from "./sweep-messages.ts";

export interface SweepOptions {
  /** Threads; as many as there are cores when left out. */
  readonly workers?: number;
}

interface Task {
  readonly message: () => ToSweepWorker;
  readonly done: (answer: FromSweepWorker) => void;
  readonly failed: (error: Error) => void;
}

/** A pool of worker threads, each started when there is work for it. Close it, or the process doesn't end. */
export class Sweep {
  readonly workers: number;
  readonly #waiting: Task[] = [];
  readonly #idle: Worker[] = [];
  readonly #running = new Map<Worker, Task | undefined>();
  #closed = false;

  constructor({ workers }: SweepOptions = {}) {
    this.workers = Math.max(1, workers ?? availableParallelism());
  }

  /** @throws Error of the simulation, such as a policy that doesn't exist */
  async run(scenario: Scenario): Promise<DetailedRun> {
    const answer = await this.#ask("run", scenario);
    if (answer.kind !== "run") throw new Error(textOf(answer));
    return answer.run;
  }

  async bound(scenario: Scenario): Promise<GoodputBound> {
    const answer = await this.#ask("bound", scenario);
    if (answer.kind !== "bound") throw new Error(textOf(answer));
    return answer.bound;
  }

  /** All of them, in their order. @param onDone - after each, with the number that is done */
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

  /** What waits or runs fails. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const task of this.#waiting.splice(0)) task.failed(new Error("the sweep was stopped"));
    await Promise.all(Array.from(this.#running.keys(), (worker) => worker.terminate()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #ask(kind: ToSweepWorker["kind"], scenario: Scenario): Promise<FromSweepWorker> {
    return new Promise((done, failed) => {
      if (this.#closed) return failed(new Error("the sweep was stopped"));
      // Taken apart only when its turn comes: thousands may wait.
      this.#waiting.push({ message: () => ({ kind, scenario: toPortable(scenario) }), done, failed });
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

  /** An error is followed by the exit: the first to come tells the task. */
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
