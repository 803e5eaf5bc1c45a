import type { Clock, Stop } from "@tutti/ports/clock";
import { type ModelSpec, RequestsShed, SharesTold, isShares, schema } from "@tutti/protocol";
import type { ShareRules } from "@tutti/scheduling";
import { type ActorKey, type ThreadId, millis } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

/** How often quotas are published while a thread is overloaded; they are recomputed as often. */
const TELL_EVERY = millis(50);

/**
 * Publishes how much of an overloaded thread's requests ingresses should refuse themselves, and counts what they
 * refused.
 */
export class QuotaPublisher {
  readonly #runtime: ActorRuntime;
  readonly #threads: ThreadTable;
  readonly #clock: Clock;
  readonly #timer: Stop;
  /** Threads whose last published quotas are not empty. */
  readonly #told = new Set<ThreadId>();

  constructor(options: { readonly runtime: ActorRuntime; readonly threads: ThreadTable; readonly clock: Clock }) {
    this.#runtime = options.runtime;
    this.#threads = options.threads;
    this.#clock = options.clock;
    this.#timer = options.clock.every(TELL_EVERY, () => this.#tell());
    this.#runtime.onPacked(RequestsShed, (shed) => this.#onShed(shed));
  }

  close(): void {
    this.#timer.stop();
  }

  /**
   * Publishes quota changes immediately when overload begins or ends: until ingresses know, a flood arrives in full.
   */
  stepped(entry: ThreadEntry): void {
    if (entry.core.shares.isOverloaded !== entry.wasOverloaded && !entry.isForJobs) this.#tellOf(entry);
  }

  #onShed({ thread, term, classes }: RequestsShed): void {
    const entry = this.#threads.get(thread);
    if (entry === undefined || entry.term !== term) return;
    const at = this.#clock.now();
    for (const one of classes) entry.core.shares.shed(at, one, one.count);
    this.stepped(entry);
  }

  #tell(): void {
    const at = this.#clock.now();
    for (const entry of this.#threads.values()) {
      entry.core.shares.advance(at);
      if (!entry.isForJobs) this.#tellOf(entry);
    }
  }

  #tellOf(entry: ThreadEntry): void {
    entry.wasOverloaded = entry.core.shares.isOverloaded;
    const classes = entry.core.shares.shares();
    if (classes.length > 0) this.#told.add(entry.id);
    else if (!this.#told.delete(entry.id)) return;
    this.#send(entry, { thread: entry.id, term: entry.term, classes });
  }

  #send(entry: ThreadEntry, told: SharesTold): void {
    const ingresses: ActorKey[] = [...this.#runtime.registry.ofRole("ingress")].map(({ key }) => key);
    for (const ingress of ingresses) this.#runtime.send(ingress, SharesTold, told);
    if (told.classes.length === 0) this.#runtime.log.info({ thread: entry.id }, "no longer overloaded");
  }
}

/**
 * Share weights and priority floor from the model's specification. Invalid weights count as absent: the store can hold
 * anything (T8).
 */
export function shareRulesOf({
  shares: given,
  priorityFloor,
}: Pick<ModelSpec, "shares" | "priorityFloor">): ShareRules {
  const shares = isShares(given) ? given : undefined;
  const { "*": otherWeight, ...named } = shares ?? {};
  return {
    ...(shares !== undefined && {
      weights: new Map(Object.entries(named).map(([app, weight]) => [fnv1a(app), weight])),
    }),
    ...(otherWeight !== undefined && { otherWeight }),
    ...(isFloor(priorityFloor) && { priorityFloor }),
  };
}

const isFloor = schema.between(0, 1);
