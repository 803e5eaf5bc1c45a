/**
 * Requests served by lanes. A lane runs one batch at a time, of whichever of its models has the earliest deadline. One
 * lane with every model is an executor as it is (docs/architecture.md, T4); a lane for each model runs every model at
 * once on the same cores.
 */
import type { Engine, RunOutcome } from "@tutti/ports/engine";
import { randomBatch } from "@tutti/engine-onnx";
import type { LatencyTable } from "@tutti/profile";
import type { ModelSpec } from "@tutti/protocol";

export interface ServedModel {
  readonly spec: ModelSpec;
  /** Latencies of isolated runs. */
  readonly latency: LatencyTable;
  readonly sloUs: number;
}
export interface Arrival {
  /** Microseconds since the beginning. */
  readonly atUs: number;
  readonly model: number;
}
export interface Lane {
  readonly engine: Pick<Engine, "run">;
  /** Indices of its models. */
  readonly models: readonly number[];
}

export interface Served {
  /** Microseconds from when each request was due until its batch was done, of those that were run. */
  readonly latencies: Float64Array;
  /** Run time of each batch relative to an isolated run. */
  readonly stretches: Float64Array;
  readonly offered: number;
  /** Answered within the SLO. */
  readonly good: number;
  readonly batchMean: number;
}

export interface ServeOptions {
  readonly models: readonly ServedModel[];
  readonly lanes: readonly Lane[];
  /** In order of time. */
  readonly arrivals: readonly Arrival[];
  /** Microseconds, never back. */
  readonly now: () => number;
  /** Calls back at that moment, or as soon as it can. */
  readonly wakeAt: (atUs: number, wake: () => void) => void;
}

/** Open loop: requests arrive when they are due, whatever is queued. */
export function serve({ models, lanes, arrivals, now, wakeAt }: ServeOptions): Promise<Served> {
  const begin = now();
  const queues = models.map((): number[] => []);
  const [latencies, stretches]: [number[], number[]] = [[], []];
  const busy = lanes.map(() => false);
  let [good, items, next, seed] = [0, 0, 0, 0];
  const { promise, resolve, reject } = Promise.withResolvers<Served>();

  const deadline = (model: number, dueUs: number): number => dueUs + models[model]!.sloUs;

  /** Takes as many requests as still meet the head's deadline by isolated run times. An infeasible head is dropped. */
  function take(model: number): number[] {
    const queue = queues[model]!;
    const { latency, spec } = models[model]!;
    for (; queue.length > 0; queue.shift()) {
      const left = deadline(model, queue[0]!) - (now() - begin);
      let size = Math.min(queue.length, spec.batchSizeMax);
      while (size > 0 && latency.latency(size) > left) size--;
      if (size > 0) return queue.splice(0, size);
    }
    return [];
  }

  function pump(place: number): void {
    const lane = lanes[place]!;
    while (!busy[place]) {
      const waiting = lane.models.filter((model) => queues[model]!.length > 0);
      if (waiting.length === 0) return;
      const head = (model: number): number => deadline(model, queues[model]![0]!);
      const model = waiting.reduce((best, one) => (head(one) < head(best) ? one : best));
      const batch = take(model);
      if (batch.length > 0) run(place, model, batch);
    }
  }

  function run(place: number, model: number, batch: readonly number[]): void {
    busy[place] = true;
    items += batch.length;
    const { spec, latency } = models[model]!;
    const inputs = randomBatch(spec, { bucket: 0, batchSize: batch.length, seed: ++seed });
    lanes[place]!.engine.run(inputs, (outcome: RunOutcome) => {
      if (outcome.kind === "failed") return reject(new Error(outcome.reason));
      const doneAt = now() - begin;
      for (const dueUs of batch) {
        latencies.push(doneAt - dueUs);
        if (doneAt <= deadline(model, dueUs)) good++;
      }
      stretches.push(outcome.run / latency.latency(batch.length));
      busy[place] = false;
      pump(place);
      endIfIdle();
    });
  }

  function arrive(): void {
    for (; next < arrivals.length && arrivals[next]!.atUs <= now() - begin; next++)
      queues[arrivals[next]!.model]!.push(arrivals[next]!.atUs);
    for (const place of lanes.keys()) pump(place);
    if (next < arrivals.length) wakeAt(begin + arrivals[next]!.atUs, arrive);
    else endIfIdle();
  }

  function endIfIdle(): void {
    if (next < arrivals.length || busy.includes(true) || queues.some((queue) => queue.length > 0)) return;
    const sorted = (values: number[]): Float64Array => Float64Array.from(values).sort();
    resolve({
      ...{ latencies: sorted(latencies), stretches: sorted(stretches), good },
      ...{ offered: arrivals.length, batchMean: items / Math.max(1, stretches.length) },
    });
  }

  arrive();
  return promise;
}

/** Percentile of sorted values; NaN without values. */
export const percentile = (sorted: Float64Array, percent: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil((percent / 100) * sorted.length) - 1)] ?? NaN;
