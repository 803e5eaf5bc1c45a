/**
 * Eager dispatch with least-latest matching: Symphony's own gathering and matchmaking without its waiting.
 *
 * Source: docs/algorithms.md: A2 (early drop by the target batch), A4 (of waiting candidates the one of least latest
 * start), A6 (eager), A7 (target batch b*). Symphony v2, §3.4, has eager batching as its baseline. Same: a free
 * accelerator, that of smallest id, runs at once the candidate of least d − l(b); heads that can't wait for
 *   a target batch are dropped; rates are measured, b* is computed anew every 50 ms, for the SLO of each head.
 * Chosen: 0.7 b*, the whole of which is too greedy on mixes; `eager-least-latest:1` is A7 as written. Where the
 * scenario gathers
 *   by head, so does this.
 */
import { ArrivalRate, type LatencyTable, targetBatch } from "@tutti/profile";
import type { Micros } from "@tutti/units";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { plannedDelays } from "../scenario/network-delays.ts";
import { BaselineEngine } from "./engine.ts";
import { headOnly, pullingLead } from "./gathering.ts";
import { LeastLatest } from "./least-latest.ts";
import { numberParameter } from "./parameter.ts";

export function eagerLeastLatest(parameter: string | undefined): SimClusterFactory {
  const range = { least: 0.01, most: 4, otherwise: 0.7, example: "0.75", whole: "any" } as const;
  const share = numberParameter({ policy: "eager-least-latest", text: parameter, ...range });
  return (options) => {
    const rates = options.models.map(() => new ArrivalRate());
    const noted = ({ model, arrivedAt }: SimRequest) => rates[model]!.note(arrivedAt);
    const delays = plannedDelays(options.network);
    return new BaselineEngine(options, { inputs: "pulled", lead: pullingLead(options) }, (engine) => {
      const targetFor = (model: number) => {
        if (options.gather === "head") return headOnly;
        const { profile } = options.models[model]!;
        return new Targets({ profile, share, delays, rate: () => rates[model]!.perMicro(engine.now), engine }).of;
      };
      return new LeastLatest(engine, { targetFor, judgedBy: (size) => size, noted });
    });
  };
}

const REFRESH_EVERY = 50_000;
/** Distinct SLOs remembered between two refreshes. */
const SLOS_MAX = 64;

interface TargetOptions {
  readonly profile: LatencyTable;
  readonly share: number;
  readonly delays: { readonly ctrl: Micros; readonly perItem: Micros; readonly respond: Micros };
  readonly rate: () => number;
  readonly engine: { readonly now: number };
}

/** The target batches of one model, by SLO. */
class Targets {
  readonly #options: TargetOptions;
  readonly #bySlo = new Map<Micros, number>();
  #refreshDue = -Infinity;

  constructor(options: TargetOptions) {
    this.#options = options;
  }

  readonly of = ({ slo }: SimRequest): number => {
    const { engine } = this.#options;
    if (engine.now >= this.#refreshDue || this.#bySlo.size >= SLOS_MAX) {
      this.#bySlo.clear();
      this.#refreshDue = engine.now + REFRESH_EVERY;
    }
    let target = this.#bySlo.get(slo);
    if (target === undefined) this.#bySlo.set(slo, (target = this.#compute(slo)));
    return target;
  };

  #compute(slo: Micros): number {
    const { profile, share, delays, rate } = this.#options;
    return Math.max(1, Math.round(share * targetBatch({ profile, slo, rate: rate(), ...delays })));
  }
}
