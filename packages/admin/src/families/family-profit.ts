/**
 * Decides whether models are better served together. It plans accelerators and memory both ways (docs/algorithms.md,
 * C7).
 */
import { type BatchLatency, type Stream, pack } from "@tutti/planning";

export interface Compared {
  /** l(b) in ms of each model served alone. */
  readonly separate: readonly BatchLatency[];
  /** l(b) in ms of the family, with as many variants in a batch as it has rows, at most all. */
  readonly family: BatchLatency;
  /** SLO of each model, ms. */
  readonly slos: readonly number[];
  /** Size of the weights, bytes. */
  readonly bytes: { readonly separate: number; readonly family: number };
  /** Requests per second of each model. Where they are unknown, several loads are planned for. */
  readonly rates?: readonly number[];
}

export interface FamilyProfit {
  readonly pays: boolean;
  readonly reason: string;
  /** Each planned load: requests per second of all models together, and the nodes needed separately and as a family. */
  readonly plans: readonly { readonly rateRps: number; readonly separate: number; readonly family: number }[];
}

/** Loads to plan for when rates are unknown, as fractions of what one accelerator carries of each model alone. */
const LOADS = [0.1, 0.4, 0.8];

/** Merges only if no load needs more nodes, and if the family saves nodes or memory. */
export function familyProfit({ separate, family, slos, bytes, rates }: Compared): FamilyProfit {
  const slo = Math.min(...slos);
  const alone = separate.map((latency, i) => mostAlone(latency, slos[i]!));
  if (mostAlone(family, slo) === 0)
    return { pays: false, reason: "the family can't meet the least of the SLOs", plans: [] };
  const loads =
    rates === undefined ? LOADS.map((load) => alone.map((rate) => load * rate)) : [rates.map((rate) => rate / 1000)];
  const plans = loads.map((perMs) => {
    const total = perMs.reduce((a, b) => a + b, 0);
    const streams = separate.map((latency, i): Stream => ({ id: i, slo: slos[i]!, rate: perMs[i]!, latency }));
    return {
      rateRps: 1000 * total,
      separate: nodesOf(streams.filter(({ rate }) => rate > 0)),
      family: total > 0 ? nodesOf([{ id: 0, slo, rate: total, latency: family }]) : 0,
    };
  });
  const worse = plans.find((plan) => plan.family > plan.separate);
  if (worse !== undefined) {
    const reason = `at ${worse.rateRps.toFixed(0)} requests a second the family needs ${worse.family} accelerators, its models alone ${worse.separate}`;
    return { pays: false, reason, plans };
  }
  const saved = bytes.separate - bytes.family;
  const fewer = plans.some((plan) => plan.family < plan.separate);
  if (saved <= 0 && !fewer) return { pays: false, reason: "it saves neither memory nor accelerators", plans };
  const what = [
    ...(saved > 0 ? [`${Math.round((100 * saved) / bytes.separate)} % of the weights`] : []),
    ...(fewer ? ["accelerators"] : []),
  ];
  return { pays: true, reason: `it saves ${what.join(" and ")}`, plans };
}

const nodesOf = (streams: readonly Stream[]): number => {
  const { nodes, unplaced } = pack(streams);
  return unplaced.length > 0 ? Infinity : nodes.length;
};

/** Requests per ms that one node carries of a model alone; 0 if the node can't meet the SLO. */
function mostAlone(latency: BatchLatency, slo: number): number {
  return latency.batchSizes.reduce((most, b) => {
    const l = latency.latency(b);
    return 2 * l <= slo ? Math.max(most, b / l) : most;
  }, 0);
}
