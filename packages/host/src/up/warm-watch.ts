import type { Bus } from "@tutti/ports/bus";
import { StatsReported, subjectsOf } from "@tutti/protocol";
import type { ActorKey, Micros } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { CLUSTER } from "./nats.ts";

/** Additional time after the warm-up. A slower system serves as well, but not at its best yet. */
const PATIENCE_MS = 10_000;

/** Receives from the ingresses how many models have finished their warm-up. */
export class WarmWatch {
  readonly #warm = new Map<ActorKey, number>();
  readonly #subscription: { stop(): void };
  #hearers: (() => void)[] = [];

  constructor(bus: Bus) {
    const reader = new FrameReader().on(StatsReported, (stats) => {
      if (!StatsReported.accepts(stats)) return;
      this.#warm.set(stats.key, stats.figures["warmModels"] ?? 0);
      for (const hear of this.#hearers) hear();
    });
    this.#subscription = bus.subscribe(
      subjectsOf(CLUSTER).stats("ingress"),
      (delivery) => void reader.read(delivery.payload),
    );
  }

  /** Resolves once every known ingress has warmed so many models, when `signal` aborts, or after the time limit. */
  async until(models: number, warmup: Micros, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = (): void => {
      if (this.#warm.size > 0 && [...this.#warm.values()].every((warm) => warm >= models)) resolve();
    };
    const timer = setTimeout(resolve, PATIENCE_MS + warmup / 1_000);
    const onAbort = (): void => resolve();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#hearers.push(check);
    check();
    await promise;
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    this.#hearers = this.#hearers.filter((hear) => hear !== check);
  }

  stop(): void {
    this.#subscription.stop();
  }
}
