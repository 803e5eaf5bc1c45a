import type { ExecutorInventory } from "@tutti/protocol";
import type { Clock } from "@tutti/ports/clock";
import { type ActorKey, type Instant, type Micros, after, between, seconds } from "@tutti/units";
import type { PeerRegistry } from "../runtime/peer-registry.ts";

/** Time after which a measurement that nobody has answered is asked for again. */
const ASK_AGAIN: Micros = seconds(10);

interface Heard {
  readonly type: string;
  /** Number of its accelerators. */
  readonly gpus: number;
  /** Numbers of its models. */
  readonly models: ReadonlySet<number>;
  readonly at: Instant;
}

/** The types of living executors and the models that they have, by their inventories. */
export class ExecutorTypes {
  readonly #heard = new Map<ActorKey, Heard>();
  /** When a model was asked about on a type, by both. */
  readonly #askedAt = new Map<string, Instant>();
  readonly #registry: Pick<PeerRegistry, "get" | "isGone">;
  readonly #clock: Pick<Clock, "now">;
  readonly #startedAt: Instant;
  /** Time by which whoever lives has been heard. */
  readonly #timeout: Micros;

  constructor(
    { registry, startedAt }: { readonly registry: Pick<PeerRegistry, "get" | "isGone">; readonly startedAt: Instant },
    clock: Pick<Clock, "now">,
    timeout: Micros,
  ) {
    this.#registry = registry;
    this.#startedAt = startedAt;
    this.#clock = clock;
    this.#timeout = timeout;
  }

  /** @returns whether it is of another type than before, or has other models */
  hear({ executor, type, gpus, models }: ExecutorInventory): boolean {
    const before = this.#heard.get(executor);
    const isSame =
      before?.type === type &&
      before.gpus === gpus.length &&
      before.models.size === models.length &&
      models.every(({ number }) => before.models.has(number));
    const heard = {
      type,
      gpus: gpus.length,
      models: new Set(models.map(({ number }) => number)),
      at: this.#clock.now(),
    };
    this.#heard.set(executor, heard);
    return !isSame;
  }
  lose(executor: ActorKey): void {
    this.#heard.delete(executor);
  }

  of(executor: ActorKey): string | undefined {
    return this.#heard.get(executor)?.type;
  }
  /** Types of the executors that have this model loaded, and the numbers of their accelerators. */
  serving(modelNumber: number): ReadonlyMap<string, number> {
    const types = new Map<string, number>();
    for (const [executor, { type, gpus, models }] of this.#heard)
      if (!this.#lives(executor)) this.#heard.delete(executor);
      else if (models.has(modelNumber)) types.set(type, (types.get(type) ?? 0) + gpus);
    return types;
  }
  /** An inventory may come before the first heartbeat, and the last one after the goodbye. */
  #lives(executor: ActorKey): boolean {
    if (this.#registry.get(executor) !== undefined) return true;
    return this.#isRecent(this.#heard.get(executor)!.at) && !this.#registry.isGone(executor);
  }
  #isRecent(at: Instant): boolean {
    return between(at, this.#clock.now()) < this.#timeout;
  }
  /** Whether the types of all are known, and who lives is known too. */
  knowsAll(executors: readonly ActorKey[]): boolean {
    return !this.#isRecent(this.#startedAt) && executors.every((executor) => this.#heard.has(executor));
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
