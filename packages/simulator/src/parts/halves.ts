/**
 * Accelerators that run as two halves each under Tutti's own policies (docs/algorithms.md, D9): the cores see twice as
 * many accelerators, with the latencies of a half.
 *
 *   HALF-1. The default policy divides accelerators where `divisionOfTypes` says that halves carry more of the
 *           scenario's mix, each type for itself; `default:whole` and `default:halves` don't ask. It is decided once,
 *           at the beginning.
 *   HALF-2. A run on a half takes as long as beside the model that slows it most, and schedulers plan with that.
 */
import { type TypedDivisibleModel, type TypedDivision, divisionOfTypes } from "@tutti/planning";
import type { AcceleratorType, Arrivals, Scenario } from "../scenario/scenario.ts";
import type { SimBatch, SimClusterFactory, SimClusterOptions, SimListener } from "../cluster/simulated-cluster.ts";
import { meanShares } from "../results/mean-shares.ts";
import { profilesOn } from "./accelerator-types.ts";
import { HALF, delayOf, halfProfile } from "./part-profile.ts";

/** Whether the default policy divides the accelerators of a scenario; undefined where it has no choice. */
export function divisionFor(scenario: Scenario): TypedDivision | undefined {
  const { models, policy, planner, pipelines } = scenario;
  if (policy !== "default" || planner !== undefined || pipelines !== undefined) return undefined;
  if (models.some(({ dynamic, runs }) => dynamic !== undefined || runs !== undefined)) return undefined;
  if (models.every(({ parts }) => parts === undefined)) return undefined;
  return divisionOfPool({ ...scenario, shares: meanShares(scenario) });
}

/** The types of a scenario's accelerators as its policy runs them, halves among them. */
export function typesInUse(scenario: Scenario): readonly AcceleratorType[] | undefined {
  const { types, policy } = scenario;
  if (types === undefined) return undefined;
  const divided = policy === "default:halves" ? types.map(() => true) : divisionFor(scenario)?.divided;
  return types.map((type, i) => (divided?.[i] === true ? halfOf(type) : type));
}

type Pool = Required<Pick<SimClusterOptions, "models" | "gpus" | "network" | "shares">> &
  Pick<SimClusterOptions, "interference" | "types"> &
  Pick<Scenario, "arrivals">;

/**
 * Requests per µs that a scenario's policy is expected to carry of a pool's mix, on halves where it divides
 * accelerators. Undefined where nobody can tell: runs whose times vary, or accelerators that differ.
 */
export function expectedOfPool(scenario: Scenario, gpus: number, shares: readonly number[]): number | undefined {
  const { models, types, policy } = scenario;
  if (types !== undefined || models.some(({ dynamic, runs }) => dynamic !== undefined || runs !== undefined))
    return undefined;
  const { whole, halves, divided } = divisionOfPool({ ...scenario, gpus, shares });
  const mayDivide = policy === "default:halves" || (divided[0] === true && divisionFor(scenario) !== undefined);
  return mayDivide ? halves.carried : whole.carried;
}

/** @returns the policy on halves where they carry more, or where it is asked for them */
export function onHalvesWherePaid(scenario: Scenario, create: SimClusterFactory): SimClusterFactory {
  if (scenario.policy === "default:halves")
    return (options) => create(onHalves(options, (options.types ?? [ALIKE]).map(() => true))); // prettier-ignore
  if (divisionFor(scenario) === undefined) return create;
  // Each sub-cluster decides for itself.
  return (options) => {
    const shares = options.shares ?? meanShares(scenario);
    return create(onHalves(options, divisionOfPool({ ...options, arrivals: scenario.arrivals, shares }).divided));
  };
}

const ALIKE = { name: "", times: 1 };
const halfOf = (type: AcceleratorType): AcceleratorType => ({ ...type, gpus: 2 * type.gpus, isHalf: true });

function divisionOfPool(pool: Pool): TypedDivision {
  const { models, shares, gpus, types = [{ ...ALIKE, gpus }], network, arrivals } = pool;
  const asked = models.map((model, i): TypedDivisibleModel => {
    const slo = Math.min(...[model, ...model.classes].map((one): number => one.slo)) - delayOf(network);
    const [profiles, halves] = [types, types.map(halfOf)].map((own) => profilesOn(own, model, pool));
    return { share: shares[i]!, slo, dispersion: dispersionOf(arrivals), profiles: profiles!, halves: halves! };
  });
  return divisionOfTypes(
    asked,
    types.map((type) => ({ count: type.gpus })),
  );
}

/** The dispersion of modulated arrivals and of a recording is unknown here. */
const dispersionOf = (arrivals: Arrivals): number => (arrivals.process === "gamma" ? 1 / arrivals.shape : 1);

/** The options of a cluster with halves, which reports batches on the accelerators that the scenario has. */
function onHalves(options: SimClusterOptions, divided: readonly boolean[]): SimClusterOptions {
  if (!divided.includes(true)) return options;
  const { models, shares, gpus, types, interference, listener } = options;
  const places = placesOf(types ?? [{ ...ALIKE, gpus }], divided);
  const own = { ...options, gpus: places.length, listener: asPlaced(listener, places) };
  if (types !== undefined)
    return { ...own, types: types.map((type, i) => (divided[i] === true ? halfOf(type) : type)) };
  const usedBeside = models.filter((_, i) => shares === undefined || shares[i]! > 0);
  return {
    ...own,
    models: models.map((model) => ({ ...model, profile: halfProfile(model, usedBeside, interference) })),
  };
}

type Place = Pick<SimBatch, "gpu" | "part">;

/** The accelerator, or its part, that each accelerator of the cluster is. */
function placesOf(types: readonly AcceleratorType[], divided: readonly boolean[]): readonly Place[] {
  let gpu = -1;
  return types.flatMap(({ gpus }, type) =>
    Array.from({ length: gpus }, (): Place[] => {
      gpu++;
      if (divided[type] !== true) return [{ gpu }];
      return [0, 1].map((place) => ({ gpu, part: { place, share: HALF / 100 } }));
    }).flat(),
  );
}

function asPlaced(listener: SimListener, places: readonly Place[]): SimListener {
  const own = (batch: SimBatch): SimBatch => ({ ...batch, ...places[batch.gpu]! });
  return {
    ...(listener.dispatched !== undefined && {
      dispatched: (batch: SimBatch, at) => listener.dispatched?.(own(batch), at),
    }),
    refused: (request, cause, at) => listener.refused(request, cause, at),
    finished: (batch, begin, end, completed) => listener.finished(own(batch), begin, end, completed),
  };
}
