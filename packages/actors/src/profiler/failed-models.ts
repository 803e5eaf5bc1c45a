import type { ExecutorInventory, ModelSpec } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { ModelExecutors } from "./model-executors.ts";
import type { ModelWork } from "./model-work.ts";

interface Failure {
  readonly spec: ModelSpec;
  /** Sub-cluster that the model was in. */
  readonly home: string | undefined;
  /** Executors that had it loaded. */
  readonly holders: ReadonlySet<ActorKey>;
  /** Executors of its sub-cluster that could not load it. None: a run of it failed, or nothing is known. */
  readonly lacking: readonly ActorKey[];
}

/**
 * Failed models. One is tried again once another executor has loaded it, once those that could not load it are gone, or
 * once it is placed elsewhere: models fail also for want of room, and a new executor may have it, or one that others
 * have left.
 */
export class FailedModels {
  readonly #executors: ModelExecutors;
  readonly #failures = new Map<number, Failure>();

  constructor(executors: ModelExecutors) {
    this.#executors = executors;
  }

  /** Notes that it has failed, unless that is noted already. */
  note(spec: ModelSpec, work?: Pick<ModelWork, "holders" | "lacking">): void {
    const { number } = spec;
    if (this.#failures.has(number)) return;
    const home = this.#executors.placeOf(number);
    const there = new Set(this.#executors.of(number));
    const lacking = (work?.lacking ?? []).filter((executor) => there.has(executor));
    this.#failures.set(number, { spec, home, holders: new Set(work?.holders), lacking });
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
      const { holders, home } = failure;
      if (holders.has(executor) && home === this.#executors.placeOf(number) && !this.#isRid(failure)) continue;
      this.#failures.delete(number);
      specs.push(failure.spec);
    }
    return specs;
  }

  /** Whether all that could not load it are gone. */
  #isRid({ spec, lacking }: Failure): boolean {
    if (lacking.length === 0) return false;
    const there = new Set(this.#executors.of(spec.number));
    return !lacking.some((executor) => there.has(executor));
  }
}
