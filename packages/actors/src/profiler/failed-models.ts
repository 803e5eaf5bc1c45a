import type { ExecutorInventory, ModelSpec } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { ModelExecutors } from "./model-executors.ts";

interface Failure {
  readonly spec: ModelSpec;
  /** Sub-cluster that the model was in. */
  readonly home: string | undefined;
  /** Executors that had it loaded. */
  readonly holders: ReadonlySet<ActorKey>;
}

/**
 * Failed models. One is tried again once another executor has loaded it, or once it is placed elsewhere: models fail
 * also for want of room, and a new executor may have it, or one that others have left.
 */
export class FailedModels {
  readonly #executors: ModelExecutors;
  readonly #failures = new Map<number, Failure>();

  constructor(executors: ModelExecutors) {
    this.#executors = executors;
  }

  /** Notes that it has failed, unless that is noted already. */
  note(spec: ModelSpec, holders: Iterable<ActorKey>): void {
    if (this.#failures.has(spec.number)) return;
    const home = this.#executors.placeOf(spec.number);
    this.#failures.set(spec.number, { spec, home, holders: new Set(holders) });
  }
  forget(modelNumber: number): void {
    this.#failures.delete(modelNumber);
  }

  /** Takes out those that are worth another try, now that the executor has them loaded. */
  takeHeld({ executor, models }: ExecutorInventory): ModelSpec[] {
    const specs: ModelSpec[] = [];
    for (const { number } of models) {
      const failure = this.#failures.get(number);
      if (failure === undefined || !this.#executors.includes(number, executor)) continue;
      if (failure.holders.has(executor) && failure.home === this.#executors.placeOf(number)) continue;
      this.#failures.delete(number);
      specs.push(failure.spec);
    }
    return specs;
  }
}
