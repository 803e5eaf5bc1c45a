/** Arrival times of requests: the simulator's workloads, for real time. */
import { type Arriving, type TraceEntry, createWorkload } from "@tutti/simulator";
import { type Micros, assert } from "@tutti/units";

/** One kind of request of a mix. */
export interface LoadStream {
  readonly model: string;
  readonly app: string;
  /** Time within which an answer is good, counted from when the request was due. */
  readonly slo: Micros;
  /** Weight against the other streams: this stream's part of the rate is weight / Σ weights. */
  readonly weight: number;
}

export const nameOf = ({ model, app }: Pick<LoadStream, "model" | "app">): string => `${model}.${app}`;

export type ArrivalProcess =
  | { readonly process: "poisson" | "uniform" }
  | { readonly process: "gamma"; readonly shape: number }
  /**
   * Arrivals with their own times, streams and SLOs; a rate above 0 stretches them. `streams` gives the streams by
   * name.
   */
  | { readonly process: "trace"; readonly entries: readonly TraceEntry[] };

/** A request that is due. */
export interface Due {
  /** Time since the beginning. */
  readonly at: Micros;
  readonly stream: number;
  readonly slo: Micros;
}
export interface Arrivals {
  /** In order of time; undefined once there are no more. */
  next(): Due | undefined;
}

export interface ArrivalOptions {
  readonly streams: readonly LoadStream[];
  readonly arrivals: ArrivalProcess;
  /** Requests a second of all streams together. */
  readonly rate: number;
  readonly duration: Micros;
  /** Equal seeds give equal arrivals; a stream's arrivals depend on its name and rate alone. */
  readonly seed: number;
  readonly phases?: Arriving["phases"];
}

export function createArrivals({ streams, arrivals, rate, duration, seed, phases = [] }: ArrivalOptions): Arrivals {
  const weights = streams.reduce((sum, { weight }) => sum + weight, 0);
  assert(weights > 0, "a mix that asks for something");
  const workload = createWorkload({
    ...{ seed, duration, rate, phases },
    arrivals: arrivals.process === "trace" ? { ...arrivals, entries: arrivals.entries.map(named) } : arrivals,
    models: streams.map((stream) => ({
      ...{ name: nameOf(stream), slo: stream.slo, share: stream.weight / weights, classes: [] },
    })),
  });
  return {
    next() {
      const request = workload.next();
      return request && { at: request.arrivedAt as number as Micros, stream: request.model, slo: request.slo };
    },
  };
}

/** Names the model of an entry after its stream: in the simulator a stream is a model. */
const named = (entry: TraceEntry): TraceEntry => ({ ...entry, model: nameOf(entry) });
