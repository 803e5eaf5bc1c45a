/**
 * Clockwork-like: predictable execution, earliest latest start first.
 *
 * Source: Gujarati et al., OSDI '20, as Symphony v2, §2.2, describes it: a candidate for every batch size; a free
 * accelerator runs the one "whose latest executable moment is the earliest". docs/algorithms.md, A6 (deadline-first).
 * Same: one central controller; eager; sizes 1, 2, 4, … compete, each full and still on time, by d − l(size), d being
 * the
 *   deadline of the first request in it; the winner grows to the largest size of any kind that is full and on time, as
 *   the authors of Symphony extended it (§5); a request is dropped only when it can't run even alone.
 * Chosen: of accelerators that are free at once the one of smallest id. Every model is loaded everywhere. The
 * description
 *   above commits a batch when an accelerator *is* free, so that is the default; `clockwork:5ms` commits up to 5 ms
 *   ahead of it, as its controller does to keep executors fed. Where the network has delays, work is always committed
 *   so far ahead that pulling overlaps with running.
 * Dynamic models, as Orloj, §2.3, saw it fail: a batch is predicted to take the mean of the last ten of its size; the
 * one after it is sent for that
 *   moment, and dropped with all its requests where it is 3 ms behind because the one before ran on. (Predicting by the
 *   longest of ten, as its source has it, would end 0.81 in time where this ends 0.65; in the paper it ends 0.51 to
 *   0.62.)
 */
import type { SimClusterFactory } from "../cluster/simulated-cluster.ts";
import { BaselineEngine } from "./engine.ts";
import { headOnly, pullingLead } from "./gathering.ts";
import { LeastLatest } from "./least-latest.ts";
import { NO_TIME, durationParameter } from "./parameter.ts";

/** "Actions can run up to 3 ms behind schedule before the worker will drop them" (its scheduler's constants). */
const DROP_AFTER = 3000;

export function clockwork(parameter: string | undefined): SimClusterFactory {
  const ahead = durationParameter("clockwork", parameter, NO_TIME);
  return (options) => {
    const lead = Math.max(ahead, pullingLead(options));
    const rule = { targetFor: () => headOnly, judgedBy: powerOfTwoWithin, dropAfter: DROP_AFTER };
    return new BaselineEngine(
      options,
      { inputs: "pulled", lead, timers: options.gpus },
      (engine) => new LeastLatest(engine, rule),
    );
  };
}

/** The largest power of two that is at most `size`. */
const powerOfTwoWithin = (size: number): number => 2 ** (31 - Math.clz32(size));
