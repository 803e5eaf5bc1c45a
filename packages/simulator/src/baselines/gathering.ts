/** GetBatch for baselines: docs/algorithms.md, A2, in the engine's time and on its queues. */
import type { LatencyTable } from "@tutti/profile";
import type { SimClusterOptions, SimRequest } from "../cluster/simulated-cluster.ts";
import { plannedDelays } from "../scenario/network-delays.ts";
import type { DeadlineRun } from "./deadline-run.ts";
import type { BaselineEngine } from "./engine.ts";

/**
 * Planned time of a batch of each size, in µs; never falling with the size. It is a `LatencyTable`, or learnt from
 * runs.
 */
export type PlannedLatencies = Pick<LatencyTable, "byBatchSize" | "batchSizeMax">;

export interface GatherOptions {
  readonly engine: BaselineEngine;
  readonly queue: DeadlineRun;
  readonly profile: PlannedLatencies;
  /** When the accelerator is free; left out where no accelerator is chosen yet. */
  readonly freeAt?: number;
  /** The window that the request at the head must be able to wait for; 1 is lazy dropping. */
  readonly targetFor: (head: SimRequest) => number;
  /** Largest batch size, where it is less than the profile's. */
  readonly most?: number;
}

/** Lazy dropping: only requests that can't run in time even alone are refused. */
export const headOnly = (): number => 1;

/**
 * Refuses the heads that can't wait for a whole window.
 *
 * @returns how many of the first requests to run together; 0 when the queue is empty
 */
export function gather({ engine, queue, profile, freeAt = -Infinity, targetFor, most }: GatherOptions): number {
  const base = engine.now + engine.ctrl;
  const limit = most ?? profile.batchSizeMax;
  const finish = (size: number): number => {
    const ready = base + engine.perItem * size;
    return (ready > freeAt ? ready : freeAt) + profile.byBatchSize[size]! + engine.respond;
  };
  while (queue.size > 0) {
    const head = queue.at(0);
    const largest = queue.size < limit ? queue.size : limit;
    const target = targetFor(head);
    const window = target < largest ? target : largest;
    if (finish(window) <= head.deadline) return largestBy(finish, head, window, largest);
    queue.shift();
    engine.refuse(head, finish(1) > head.deadline ? "infeasible" : "overloaded");
  }
  return 0;
}

/**
 * The largest size between `fits`, which ends in time, and `largest` that ends in time: finish never falls with the
 * size.
 */
function largestBy(finish: (size: number) => number, head: SimRequest, fits: number, largest: number): number {
  if (finish(largest) <= head.deadline) return largest;
  let fails = largest;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (finish(middle) <= head.deadline) fits = middle;
    else fails = middle;
  }
  return fits;
}

/** The largest size whose latency is at most `limit` µs; 0 if there is none. */
export function largestWithin({ byBatchSize, batchSizeMax }: LatencyTable, limit: number): number {
  let fits = 0;
  let fails = batchSizeMax + 1;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (byBatchSize[middle]! <= limit) fits = middle;
    else fails = middle;
  }
  return fits;
}

/**
 * How long before an accelerator is free a central scheduler decides (µs), so that pulling overlaps with the run
 * before: what the largest batch of which an SLO allows two takes to be pulled.
 */
export function pullingLead({ models, network }: SimClusterOptions): number {
  const { ctrl, perItem } = plannedDelays(network);
  const sizes = models.map(({ profile, slo }) => largestWithin(profile, slo / 2));
  return ctrl + perItem * Math.max(1, ...sizes);
}
