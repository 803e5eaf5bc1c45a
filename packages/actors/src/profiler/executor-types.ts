import type { ExecutorInventory } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, after, seconds } from "@tutti/units";

/** Time after which a measurement that nobody has answered is asked for again. */
const ASK_AGAIN: Micros = seconds(10);

/** The types of living executors and the models that they have, by their inventories. */
export class ExecutorTypes {
  readonly #heard = new Map<ActorKey, Pick<ExecutorInventory, "type" | "gpus" | "models">>();
  /** When a model was asked about on a type, by both. */
  readonly #askedAt = new Map<string, Instant>();

  /** @returns whether it is of another type than before, or has other models */
  hear({ executor, type, gpus, models }: ExecutorInventory): boolean {
    const before = this.#heard.get(executor);
    this.#heard.set(executor, { type, gpus, models });
    if (before?.type !== type || before.models.length !== models.length) return true;
    return models.some(({ number }, i) => number !== before.models[i]!.number);
  }
  lose(executor: ActorKey): void {
    this.#heard.delete(executor);
  }

  of(executor: ActorKey): string | undefined {
    return this.#heard.get(executor)?.type;
  }
  /**
   * Types of the executors that have this model loaded.
   *
   * @param lives - whether an executor that was heard is still there: one that was only heard once may have gone since
   */
  serving(modelNumber: number, lives: (executor: ActorKey) => boolean): ReadonlySet<string> {
    const types = new Set<string>();
    for (const [executor, { type, models }] of this.#heard)
      if (!lives(executor)) this.#heard.delete(executor);
      else if (models.some(({ number }) => number === modelNumber)) types.add(type);
    return types;
  }

  /** Whether it is time to ask for a measurement; then it counts as asked. */
  mayAsk(modelNumber: number, type: string, now: Instant): boolean {
    const key = `${modelNumber} ${type}`;
    const askedAt = this.#askedAt.get(key);
    if (askedAt !== undefined && now < after(askedAt, ASK_AGAIN)) return false;
    this.#askedAt.set(key, now);
    return true;
  }
  forgetModel(modelNumber: number): void {
    for (const key of this.#askedAt.keys()) if (key.startsWith(`${modelNumber} `)) this.#askedAt.delete(key);
  }
}
