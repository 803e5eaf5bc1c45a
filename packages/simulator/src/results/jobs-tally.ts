import type { Instant } from "@tutti/units";
import { jobRunMaxBeside } from "../scenario/job-backlog.ts";
import { plannedDelays } from "../scenario/network-delays.ts";
import type { JobsResult } from "./result.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SimJobBatch } from "../cluster/simulated-cluster.ts";

/** Work of jobs between the warm-up and the end of the arrivals. */
export class JobsTally {
  readonly #scenario: Scenario;
  readonly #loads: { batches: number; items: number }[];
  /** Accelerator-time, µs. */
  #busy = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#loads = (scenario.jobs ?? []).map(() => ({ batches: 0, items: 0 }));
  }

  note({ job, size }: SimJobBatch, begin: Instant, end: Instant): void {
    const { warmup, duration } = this.#scenario;
    this.#busy += Math.max(0, Math.min(end, duration) - Math.max(begin, warmup));
    if (begin < warmup || begin >= duration) return;
    const load = this.#loads[job]!;
    load.batches++;
    load.items += size;
  }

  /** @param busy - accelerator-time of requests, µs */
  result(busy: number): { readonly jobs?: JobsResult } {
    const { jobs, gpus, warmup, duration, models, network } = this.#scenario;
    if (jobs === undefined) return {};
    const time = gpus * (duration - warmup);
    const runMax = jobRunMaxBeside(models, plannedDelays(network));
    const loads = jobs.map(({ name, profile }, i) => {
      const { batches, items } = this.#loads[i]!;
      const did = { rps: (items * 1e6) / (duration - warmup), batchMean: batches === 0 ? 0 : items / batches };
      return { name, ...did, isTooLong: profile.latency(1) > runMax };
    });
    return {
      jobs: {
        busyFraction: this.#busy / time,
        usedFraction: (this.#busy + busy) / time,
        runMaxMs: runMax / 1000,
        loads,
      },
    };
  }
}
