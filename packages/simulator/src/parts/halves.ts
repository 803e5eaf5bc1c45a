/**
 * Accelerators that run as two halves each under Tutti's own policies (docs/algorithms.md, D9): the cores see twice as
 * many accelerators, with the latencies of a half.
 *
 *   HALF-1. The default policy divides accelerators where `divisionOf` says that halves carry more of the scenario's
 *           mix; `default:whole` and `default:halves` don't ask. It is decided once, at the beginning.
 *   HALF-2. A run on a half takes as long as beside the model that slows it most, and schedulers plan with that.
 */
import { type DivisibleModel, type Division, type Interference, divisionOf, factorBeside } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { Arrivals, Scenario, ScenarioModel } from "../scenario/scenario.ts";
import type { SimBatch, SimClusterFactory, SimClusterOptions, SimListener } from "../cluster/simulated-cluster.ts";
import { meanShares } from "../results/mean-shares.ts";
import { delayOf, partProfile, slower } from "./part-profile.ts";

const HALF = 50;

/** Whether the default policy divides the accelerators of a scenario; undefined where it has no choice. */
export function divisionFor(scenario: Scenario): Division | undefined {
  const { models, policy, planner, pipelines, types } = scenario;
  if (policy !== "default" || types !== undefined || planner !== undefined || pipelines !== undefined) return undefined;
  if (models.some(({ dynamic, runs }) => dynamic !== undefined || runs !== undefined)) return undefined;
  if (models.every(({ parts }) => parts === undefined)) return undefined;
  return divisionOfPool({ ...scenario, shares: meanShares(scenario) });
}

type Pool = Required<Pick<SimClusterOptions, "models" | "gpus" | "network" | "shares">> &
  Pick<SimClusterOptions, "interference"> &
  Pick<Scenario, "arrivals">;

/**
 * Requests per µs that a scenario's policy is expected to carry of a pool's mix, on halves where it divides
 * accelerators. Undefined where nobody can tell: runs whose times vary, or accelerators that differ.
 */
export function expectedOfPool(scenario: Scenario, gpus: number, shares: readonly number[]): number | undefined {
  const { models, types, policy } = scenario;
  if (types !== undefined || models.some(({ dynamic, runs }) => dynamic !== undefined || runs !== undefined))
    return undefined;
  const { whole, halves, kind } = divisionOfPool({ ...scenario, gpus, shares });
  const mayDivide = policy === "default:halves" || (kind === "halves" && divisionFor(scenario) !== undefined);
  return mayDivide ? halves.carried : whole.carried;
}

/** @returns the policy on halves where they carry more, or where it is asked for them */
export function onHalvesWherePaid(scenario: Scenario, create: SimClusterFactory): SimClusterFactory {
  if (scenario.policy === "default:halves") return (options) => create(onHalves(options));
  if (divisionFor(scenario) === undefined) return create;
  // Each sub-cluster decides for itself.
  return (options) => {
    const shares = options.shares ?? meanShares(scenario);
    return create(
      divisionOfPool({ ...options, arrivals: scenario.arrivals, shares }).kind === "halves"
        ? onHalves(options)
        : options,
    );
  };
}

function divisionOfPool({ models, shares, gpus, network, interference, arrivals }: Pool): Division {
  const usedBeside = models.filter((_, i) => shares[i]! > 0);
  const asked = models.map((model, i): DivisibleModel => {
    const slo = Math.min(...[model, ...model.classes].map((one): number => one.slo)) - delayOf(network);
    const half = halfProfile(model, usedBeside, interference);
    return { share: shares[i]!, slo, dispersion: dispersionOf(arrivals), profile: model.profile, half };
  });
  return divisionOf(asked, gpus);
}

/** The dispersion of modulated arrivals and of a recording is unknown here. */
const dispersionOf = (arrivals: Arrivals): number => (arrivals.process === "gamma" ? 1 / arrivals.shape : 1);

/** The options of a cluster of halves, which reports batches on the accelerators that the scenario has. */
function onHalves(options: SimClusterOptions): SimClusterOptions {
  const { models, shares, gpus, interference, listener } = options;
  const usedBeside = models.filter((_, i) => shares === undefined || shares[i]! > 0);
  const halves = models.map((model) => ({ ...model, profile: halfProfile(model, usedBeside, interference) }));
  return { ...options, models: halves, gpus: 2 * gpus, listener: asHalves(listener) };
}

/** Latencies on a half beside the model that slows it most (HALF-2). */
function halfProfile(
  model: ScenarioModel,
  beside: readonly ScenarioModel[],
  interference: Interference | undefined,
): LatencyTable {
  const alone = partProfile(model, HALF);
  if (interference === undefined) return alone;
  const own = { model: usesOf(model), size: HALF };
  const factors = beside.map((other) => factorBeside(interference, own, { model: usesOf(other), size: HALF }));
  return slower(alone, Math.max(1, ...factors));
}

const usesOf = ({ parts }: ScenarioModel) => ({
  cacheUse: parts?.cacheUse ?? 0,
  bandwidthUse: parts?.bandwidthUse ?? 0,
});

function asHalves(listener: SimListener): SimListener {
  const own = (batch: SimBatch): SimBatch => ({
    ...batch,
    gpu: Math.floor(batch.gpu / 2),
    part: { place: batch.gpu % 2, share: HALF / 100 },
  });
  return {
    ...(listener.dispatched !== undefined && {
      dispatched: (batch: SimBatch, at) => listener.dispatched?.(own(batch), at),
    }),
    refused: (request, cause, at) => listener.refused(request, cause, at),
    finished: (batch, begin, end, completed) => listener.finished(own(batch), begin, end, completed),
  };
}
