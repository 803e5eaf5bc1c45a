/** Policies by name: Tutti's own cores under each rule of docs/algorithms.md, A6, and the baselines. */
import type { Policy } from "@tutti/scheduling";
import { type Micros, micros, parseDuration } from "@tutti/units";
import { cappedAtBest } from "../baselines/best-cap.ts";
import { baselines } from "../baselines/index.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SimClusterFactory } from "./simulated-cluster.ts";
import { subClusterChoice } from "./sub-cluster-choice.ts";
import { inSubClusters, splitOf } from "./sub-clusters.ts";
import { inPools } from "../parts/accelerator-types.ts";
import { onHalvesWherePaid } from "../parts/halves.ts";
import { TuttiCluster } from "./tutti-cluster.ts";

/**
 * Tutti's default, with one setting for every workload: all tuning is done here. It gathers towards a target whatever
 * the scenario says.
 */
const DEFAULT = { policy: { kind: "adaptive" }, gather: "target", knows: "distributions" } as const;

/** Parameters of the default policy that say how accelerators are divided. */
const DIVISIONS: readonly string[] = ["whole", "halves", "pools"];
/** Parameter with which the default policy knows no step of costs but the first. */
const FIRST_STEP = "first-step";

type FromParameter = (parameter: string | undefined) => SimClusterFactory;

const own: Readonly<Record<string, FromParameter>> = {
  default: (parameter) => {
    const isPreference = parameter === "latency" || parameter === "accelerators";
    const isKnown = isPreference || parameter === FIRST_STEP || DIVISIONS.includes(parameter ?? "whole");
    if (!isKnown) {
      const known =
        "'latency' or 'accelerators' (what it prefers), 'whole' or 'halves' (how it divides accelerators), 'pools' (a static split by their types), 'first-step' (costs in steps: the SLO alone counts)";
      throw new Error(`policy 'default' takes ${known}, but was given '${parameter}'`);
    }
    const asked = isPreference ? parameter : undefined;
    const create: SimClusterFactory = (options) =>
      new TuttiCluster(options, {
        ...DEFAULT,
        prefer: asked ?? options.prefer ?? "latency",
        ...(parameter === FIRST_STEP && { steps: "first" }),
      });
    return parameter === "pools" ? inPools(create) : create;
  },
  deferred: gathering({ kind: "deferred" }),
  eager: gathering({ kind: "eager" }),
  timeout: (parameter = "") => {
    const wait = waitOf(parameter);
    if (wait === undefined)
      throw new Error(`policy 'timeout' needs a time or a share of the SLO, as in 'timeout:5ms' or 'timeout:20%'`);
    return (options) => {
      const { gather } = options;
      return new TuttiCluster(options, (slo) => ({ policy: { kind: "timeout", wait: wait(slo) }, gather }));
    };
  },
  latest: gathering({ kind: "latest" }),
  "beta-lambda": gathering({ kind: "beta-lambda" }),
};

/** Parses `5ms`, or a share of each model's own SLO: `20%`. */
function waitOf(text: string): ((slo: Micros) => Micros) | undefined {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(text)?.[1];
  if (percent !== undefined) return (slo) => micros(Math.round((slo * Number(percent)) / 100));
  const wait = parseDuration(text);
  return wait === undefined ? undefined : () => wait;
}

/** A policy that gathers as the scenario says, or as the parameter says: `deferred:head`. */
function gathering(policy: Policy): FromParameter {
  return (parameter) => {
    if (parameter !== undefined && parameter !== "head" && parameter !== "target") {
      throw new Error(`policy '${policy.kind}' takes 'head' or 'target', but was given '${parameter}'`);
    }
    return (options) => new TuttiCluster(options, { policy, gather: parameter ?? options.gather });
  };
}

/** Names that `policyNamed` knows, without parameters. */
export function policyNames(): string[] {
  return [...Object.keys(own), ...Object.keys(baselines)];
}

/** The scheduler of a scenario: its policy, once or in each sub-cluster, on whole accelerators or on halves. */
export function clusterOf(scenario: Scenario): SimClusterFactory {
  const { policy, subClusters = 1 } = scenario;
  // Jobs run on whole accelerators, one after another.
  if (scenario.jobs !== undefined) return policyNamed(policy);
  const isAtBest = policy === "capped" && scenario.pipelines === undefined;
  const create = isAtBest ? cappedAtBest(scenario) : onHalvesWherePaid(scenario, policyNamed(policy));
  // The others refuse sub-clusters.
  const used = isElasticPolicy(policy) ? (subClusterChoice(scenario)?.used ?? 1) : subClusters;
  return used === 1 ? create : inSubClusters(splitOf(scenario, used), create);
}

/**
 * Names of the policies whose accelerators can come and go: Tutti's own. The baselines plan for a given number once.
 */
export function elasticPolicyNames(): string[] {
  return Object.keys(own);
}
export const isElasticPolicy = (text: string): boolean => Object.hasOwn(own, nameIn(text));
/** Baselines whose plans give each batch its run time. */
const UNDISTURBED: readonly string[] = ["nexus", "fractions"];
/** Whether a policy can run where runs take other times than planned and its process stands still. */
export const isForNoise = (text: string): boolean => !UNDISTURBED.includes(nameIn(text));
const nameIn = (text: string): string => text.split(":")[0]!;

/**
 * @param text - a name of `policyNames()`, with its parameter after a colon where it takes one: `timeout:5ms`
 * @throws Error that lists what exists, or says what the parameter may be
 */
export function policyNamed(text: string): SimClusterFactory {
  const [name, ...rest] = text.split(":");
  const parameter = rest.length === 0 ? undefined : rest.join(":");
  const known = [own, baselines].find((policies) => Object.hasOwn(policies, name!));
  if (known === undefined) throw new Error(`there is no policy '${name}'; there are ${policyNames().join(", ")}`);
  return known[name!]!(parameter);
}
