import type { ExecutorInventory } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, after, seconds } from "@tutti/units";

/** Time after which a measurement that nobody has answered is asked for again. */
const ASK_AGAIN: Micros = seconds(10);

interface Heard {
  readonly type: string;
  /** Number of its accelerators. */
  readonly gpus: number;
  /** Numbers of its models. */
  readonly models: ReadonlySet<number>;
}

/** The types of living executors and the models that they have, by their inventories. */
export class ExecutorTypes {
  readonly #heard = new Map<ActorKey, Heard>();
  /** When a model was asked about on a type, by both. */
  readonly #askedAt = new Map<string, Instant>();

  /** @returns whether it is of another type than before, or has other models */
  hear({ executor, type, gpus, models }: ExecutorInventory): boolean {
    const before = this.#heard.get(executor);
    const isSame =
      before?.type === type &&
      before.gpus === gpus.length &&
      before.models.size === models.length &&
      models.every(({ number }) => before.models.has(number));
    const heard = { type, gpus: gpus.length, models: new Set(models.map(({ number }) => number)) };
    if (!isSame) this.#heard.set(executor, heard);
    return !isSame;
  }
  lose(executor: ActorKey): void {
    this.#heard.delete(executor);
  }

  of(executor: ActorKey): string | undefined {
    return this.#heard.get(executor)?.type;
  }
  /**
   * Types of the executors that have this model loaded, and the numbers of their accelerators.
   *
   * @param lives - whether an executor that was heard is still there: one that was only heard once may have gone since
   */
  serving(modelNumber: number, lives: (executor: ActorKey) => boolean): ReadonlyMap<string, number> {
    const types = new Map<string, number>();
    for (const [executor, { type, gpus, models }] of this.#heard)
      if (!lives(executor)) this.#heard.delete(executor);
      else if (models.has(modelNumber)) types.set(type, (types.get(type) ?? 0) + gpus);
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
