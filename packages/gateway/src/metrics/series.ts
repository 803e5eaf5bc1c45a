/**
 * Counts behind metrics that every request changes. prom-client finds a series by a text that it makes of the labels in
 * each call; here whoever counts holds its series, and texts are made when somebody scrapes.
 */
import type { Metric, Registry } from "prom-client";

type Labels = Readonly<Record<string, string>>;
export interface Sample {
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

export interface CountedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "histogram";
  readonly labelNames: readonly string[];
  readonly samples: () => Iterable<Sample>;
}

/** Registers a metric whose samples are read at each scrape. */
export function registerCounted(registry: Registry, { name, help, type, labelNames, samples }: CountedMetric): void {
  const metric = {
    ...{ name, help, type, labelNames },
    get: () => Promise.resolve({ name, help, type, values: [...samples()] }),
    reset: () => undefined,
  };
  registry.registerMetric(metric as unknown as Metric);
}

/** One series of a histogram. */
export class BucketCounts {
  readonly #bounds: readonly number[];
  /** The last one counts what is above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds - inclusive upper bounds of the buckets, rising */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > this.#bounds[bucket]!) bucket++;
    this.#counts[bucket]!++;
    this.#sum += value;
  }

  *samples(name: string, labels: Labels): Generator<Sample> {
    let count = 0;
    for (const [i, own] of this.#counts.entries()) {
      count += own;
      yield {
        metricName: `${name}_bucket`,
        labels: { le: String(this.#bounds[i] ?? "+Inf"), ...labels },
        value: count,
      };
    }
    yield { metricName: `${name}_sum`, labels, value: this.#sum };
    yield { metricName: `${name}_count`, labels, value: count };
  }
}
