/**
 * Runs of Tutti's default policy that something disturbs, with what is served of each stretch of time. Plans are
 * learned in the loop, as in a running cluster.
 */
import { LatencyTable } from "@tutti/profile";
import { type Instant, type Micros, Prng, micros, millis, seconds } from "@tutti/units";
import { policyNamed } from "../cluster/policies.ts";
import { type SimBatch, type SimRequest, isElastic } from "../cluster/simulated-cluster.ts";
import { ParticularRequest } from "../scenario/arrived-request.ts";
import type { StallProcess } from "../scenario/noise.ts";
import type { Phase, Scenario } from "../scenario/scenario.ts";
import { createWorkload } from "../scenario/workload.ts";

export interface Disturbance {
  readonly name: string;
  /** Time of its beginning and its end. */
  readonly from: Micros;
  readonly until: Micros;
  /** The scenario with it. Default: as it is. */
  readonly changed?: (scenario: Scenario) => Scenario;
  /** Accelerators that are there between its beginning and its end, as a share of all. Default: all. */
  readonly share?: number;
}

const AT = seconds(4);

const phased =
  (phases: readonly Phase[]) =>
  (scenario: Scenario): Scenario => ({ ...scenario, phases });
const given =
  (times: number) =>
  (scenario: Scenario): Scenario => ({ ...scenario, learned: { given: times } });
const withStall =
  (stall: StallProcess) =>
  (scenario: Scenario): Scenario => ({
    ...scenario,
    noise: { ...scenario.noise, stalls: [...(scenario.noise?.stalls ?? []), stall] },
  });

/** The machine stands still once. */
export const oneStall = (at: Micros, length: Micros): Disturbance => ({
  ...{ name: `a stall of ${length / 1e3} ms`, from: at, until: micros(at + length) },
  changed: withStall({ kind: "given", scope: "machine", stalls: [{ at, length }] }),
});

const flooded = [
  { from: 0 as Micros, factor: 1 },
  { from: AT, factor: 10 },
  { from: seconds(6), factor: 1 },
];
const stepped = [
  { from: 0 as Micros, factor: 0.3 },
  { from: AT, factor: 1 },
];
export const DISTURBANCES: readonly Disturbance[] = [
  { name: "a flood of ten times the rate for 2 s", from: AT, until: seconds(6), changed: phased(flooded) },
  oneStall(AT, seconds(1)),
  {
    ...{ name: "2 s of cold code at the start", from: 0 as Micros, until: seconds(2) },
    changed: ({ noise, ...scenario }) => ({
      ...scenario,
      noise: { stalls: [], ...noise, cold: { factor: 3, until: seconds(2) } },
    }),
  },
  { name: "half of the executors away for 5 s", from: AT, until: seconds(9), share: 0.5 },
  { name: "a given profile half too slow", from: 0 as Micros, until: 0 as Micros, changed: given(1.5) },
  { name: "a given profile half too fast", from: 0 as Micros, until: 0 as Micros, changed: given(0.5) },
  { name: "a rate that steps from 0.3", from: AT, until: AT, changed: phased(stepped) },
];

export interface DisturbedRun {
  readonly scenario: Scenario;
  readonly disturbance: Disturbance;
  /** Applications that share the models, by their parts of the requests. Default: one. */
  readonly apps?: readonly number[];
}

/** Requests by the time of their arrival. */
export class Outcomes {
  /** Microseconds of a slot. */
  readonly slot: Micros = millis(10);
  readonly arrived: number[] = [];
  readonly good: number[] = [];

  add(counts: number[], at: Instant): void {
    const place = Math.floor(at / this.slot);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  /** @returns how many arrived in a stretch of time, and how many of these were not served in time */
  between(from: Micros, until: Micros): { readonly arrived: number; readonly lost: number } {
    const count = (counts: readonly number[]): number => {
      let sum = 0;
      for (let i = Math.ceil(from / this.slot); i < until / this.slot; i++) sum += counts[i] ?? 0;
      return sum;
    };
    const arrived = count(this.arrived);
    return { arrived, lost: arrived - count(this.good) };
  }
}

export function runDisturbed({ scenario: calm, disturbance, apps }: DisturbedRun): Outcomes {
  const { changed = (scenario: Scenario) => scenario, from, until, share } = disturbance;
  const scenario = changed({ learned: { given: 1 }, ...calm });
  const outcomes = new Outcomes();
  const { models, gpus, network, seed, noise, learned } = scenario;
  const respond = Math.round(network.respond * (1 + network.jitter));
  const cluster = policyNamed("default")({
    ...{ models, gpus, network, seed, gather: "target" },
    ...(noise !== undefined && { noise }),
    ...(learned !== undefined && { learned }),
    listener: {
      refused: () => undefined,
      finished: ({ requests }: SimBatch, _: Instant, end: Instant) => {
        for (const { arrivedAt, deadline } of requests)
          if (end + respond <= deadline) outcomes.add(outcomes.good, arrivedAt);
      },
    },
  });
  if (!isElastic(cluster)) throw new Error("accelerators of the default policy come and go");
  const changes = share === undefined ? [] : [{ at: from, gpus: Math.ceil(share * gpus) }, { at: until, gpus }]; // prettier-ignore
  const workload = createWorkload(scenario);
  const appOf = appsOf(apps, seed);
  for (let drawn = workload.next(); drawn !== undefined; drawn = workload.next()) {
    while (changes.length > 0 && changes[0]!.at <= drawn.arrivedAt) {
      const change = changes.shift()!;
      cluster.resize(change.gpus, change.at as number as Instant);
    }
    const request = appOf(drawn);
    outcomes.add(outcomes.arrived, request.arrivedAt);
    cluster.arrive(request);
  }
  cluster.runUntilIdle();
  return outcomes;
}

function appsOf(apps: readonly number[] | undefined, seed: number): (request: SimRequest) => SimRequest {
  if (apps === undefined) return (request) => request;
  const prng = new Prng(new Prng(seed).nextUint32() ^ 0x61707073);
  return ({ id, model, arrivedAt, slo }) => {
    let draw = prng.nextFloat();
    const app = apps.findIndex((part) => (draw -= part) < 0);
    return new ParticularRequest(id, model, arrivedAt, { slo, app: Math.max(0, app), solo: 0, units: 0 });
  };
}

export interface DescribedModel {
  readonly name: string;
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly sloMs: number;
}

/** ResNet50 of Table 2 with the SLO of a running cluster. */
export const RESNET50_LIVE: DescribedModel = { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, sloMs: 23 };
/** The delays of a running cluster. */
const NETWORK = { ctrl: micros(600), data: 0 as Micros, respond: micros(700), jitter: 0.2 };

export function disturbedScenario(
  models: readonly DescribedModel[],
  changes: Pick<Scenario, "gpus" | "rate" | "seed" | "duration"> & Pick<Partial<Scenario>, "noise">,
): Scenario {
  return {
    ...{ warmup: 0 as Micros, policy: "default", gather: "target", arrivals: { process: "poisson" }, phases: [] },
    network: NETWORK,
    models: models.map(({ name, alphaMs, betaMs, sloMs }) => ({
      ...{ name, slo: millis(sloMs), classes: [], share: 1 / models.length },
      profile: LatencyTable.affine({ alpha: 1e3 * alphaMs, beta: 1e3 * betaMs, batchSizeMax: 64 }),
    })),
    ...changes,
  };
}
