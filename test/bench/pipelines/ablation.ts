/**
 * Nexus' ablation (SOSP '19, section 7.3, Figures 10 and 11) in the simulator. Its parts are off one at a time, and off
 * one after the other as the paper does it, under its own scheduler and ours.
 *
 * The parts:
 *   - prefixes: variants of a model are a family of one queue (C7). Off: each is a model by itself.
 *   - packing: several models share an accelerator (Nexus: squishy packing; ours: every accelerator runs what is due).
 *     Off: accelerators in proportion to rate over throughput, one model each while there are enough (C8).
 *   - drop: early drop, a head that would make batches small is dropped. Off: only infeasible requests are dropped,
 *     those that can't be met even alone (C6).
 *   - overlap: inputs are prepared and moved while another batch runs, which takes time of their SLO. Off: the
 *     accelerator waits for it, one input after the other.
 *   - split: an SLO is divided over the stages by plan (C5). Off: evenly.
 */
import { join } from "node:path";
import { ScenarioFile } from "@tutti/sim-report/scenarios";
import { LatencyTable } from "@tutti/profile";
import {
  type Scenario,
  type ScenarioModel,
  type SimClusterFactory,
  TuttiCluster,
  goodput,
  inSubClusters,
  policyNamed,
  simulateDetailed,
  wholeAccelerators,
} from "@tutti/simulator";
import { type Micros, micros, seconds } from "@tutti/units";

export const PARTS = ["prefixes", "packing", "drop", "overlap", "split"] as const;
export type Part = (typeof PARTS)[number];
export const SYSTEMS = ["nexus", "default"] as const;
export type System = (typeof SYSTEMS)[number];

/** Host time of one input beside the accelerator, in ms. The values are ours: the paper prints none. */
export const HOST_MS: Readonly<Record<string, number>> = {
  lenet: 0.05,
  resnet50: 1,
  SSDMobilenet: 2,
  InceptionV3: 1,
  VGG16: 1,
};

export interface Study {
  readonly name: string;
  readonly file: string;
  readonly choice: Readonly<Record<string, string>>;
  /** Parts in the paper's order. */
  readonly parts: readonly Part[];
  /** Requests of the scenario per frame of the study. */
  readonly perFrame: number;
  readonly runS: number;
  /** Claim of the paper's text; its bars have no numbers. */
  readonly paper: string;
}

export const STUDIES: readonly Study[] = [
  {
    name: "game",
    file: "nexus-game.yaml",
    choice: {},
    parts: ["prefixes", "packing", "drop", "overlap"],
    perFrame: 7,
    runS: 11,
    paper: "Figure 10: 9.4 times Clipper, 12.7 times TF Serving; overlap contributes the most, early drop the least",
  },
  {
    ...trafficAt("rush"),
    name: "traffic, rush hour",
    paper: "Figure 11, by day: without the planned split 4 % less; 4.4 times Clipper, 1.8 times TF Serving",
  },
  {
    ...trafficAt("quiet"),
    name: "traffic, quiet",
    paper: "Figure 11, at night: without the planned split 17 % less; 1.8 times Clipper, 2.3 times TF Serving",
  },
];

function trafficAt(hour: "rush" | "quiet"): Omit<Study, "name" | "paper"> {
  const parts = ["packing", "drop", "overlap", "split"] as const;
  return { file: "nexus-traffic.yaml", choice: { hour }, parts, perFrame: 1, runS: 21 };
}

export interface AblationRow {
  readonly study: string;
  readonly off: readonly Part[];
  /** Frames per second with at most 1 % of every model's, or of the pipeline's, requests refused or late. */
  readonly fps: Readonly<Record<System, number>>;
}

/** No part off; each part off alone; then one after the other. */
export function combinations(parts: readonly Part[]): (readonly Part[])[] {
  return [[], ...parts.map((part) => [part]), ...parts.slice(1).map((_, i) => parts.slice(0, i + 2))];
}

export interface AblationOptions {
  readonly seeds: readonly number[];
  readonly onStep: (text: string) => void;
  /** Only studies whose name begins with this. */
  readonly only?: string | undefined;
  /** Overrides each study's own duration. */
  readonly runS?: number | undefined;
}

export async function ablation({ seeds, onStep, only = "", runS }: AblationOptions): Promise<AblationRow[]> {
  const rows: AblationRow[] = [];
  const studies = STUDIES.filter(({ name }) => name.startsWith(only));
  const steps = studies.reduce((sum, { parts }) => sum + combinations(parts).length, 0);
  for (const study of studies) {
    for (const off of combinations(study.parts)) {
      onStep(`${rows.length + 1}/${steps} ${study.name}: ${off.length === 0 ? "all on" : `without ${off.join(", ")}`}`);
      const scenario = await scenarioOf(study, off, runS ?? study.runS);
      const fps = { nexus: 0, default: 0 };
      for (const system of SYSTEMS) {
        const cluster = clusterFor(system, off);
        const evaluate = (one: Scenario) => Promise.resolve(simulateDetailed(one, { cluster }));
        const arrivalsMin = micros(scenario.duration - scenario.warmup);
        for (const seed of seeds) {
          const found = await goodput({ ...scenario, seed }, evaluate, { arrivalsMin });
          fps[system] += found.goodputRps / study.perFrame / seeds.length;
        }
      }
      rows.push({ study: study.name, off, fps });
    }
  }
  return rows;
}

async function scenarioOf({ file, choice, parts }: Study, off: readonly Part[], runS: number): Promise<Scenario> {
  const family = await ScenarioFile.read(join(import.meta.dirname, "../scenarios", file));
  const own = {
    ...choice,
    ...(parts.includes("prefixes") && { served: off.includes("prefixes") ? "apart" : "together" }),
    ...(parts.includes("split") && { split: off.includes("split") ? "even" : "planned" }),
  };
  const scenario = { ...(await family.scenario({ choice: own })), duration: seconds(runS) };
  return off.includes("overlap") ? withoutOverlap(scenario) : withOverlap(scenario);
}

/** Host time of a model, or of a variant of it: `lenet-3`. */
const hostTime = ({ name }: Pick<ScenarioModel, "name">): Micros =>
  micros(Math.round(1000 * HOST_MS[name.replace(/-\d+$/, "")]!));

/** Subtracts the host time from a model's SLO; a pipeline's stage has it as a step. */
function withOverlap(scenario: Scenario): Scenario {
  return {
    ...scenario,
    models: scenario.models.map((model) => ({ ...model, slo: micros(model.slo - hostTime(model)) })),
    ...(scenario.pipelines !== undefined && { pipelines: stepsAs(scenario, (model) => hostTime(model)) }),
  };
}

function withoutOverlap(scenario: Scenario): Scenario {
  return {
    ...scenario,
    models: scenario.models.map((model) => ({ ...model, profile: inTurn(model.profile, hostTime(model)) })),
    ...(scenario.pipelines !== undefined && { pipelines: stepsAs(scenario, () => 0 as Micros) }),
  };
}

const stepsAs = (
  { models, pipelines = [] }: Scenario,
  stepOf: (model: ScenarioModel) => Micros,
): NonNullable<Scenario["pipelines"]> =>
  pipelines.map((pipeline) => ({
    ...pipeline,
    stages: pipeline.stages.map((stage) => ({ ...stage, step: stepOf(models[stage.model]!) })),
  }));

/** The accelerator waits while each input is prepared. */
const inTurn = ({ batchSizeMax, byBatchSize }: LatencyTable, each: Micros): LatencyTable =>
  LatencyTable.fromPoints(
    Array.from({ length: batchSizeMax }, (_, i) => ({
      batchSize: i + 1,
      latency: micros(Math.round(byBatchSize[i + 1]! + (i + 1) * each)),
    })),
  );

export function clusterFor(system: System, off: readonly Part[]): SimClusterFactory {
  const [isPacked, isEarly] = [!off.includes("packing"), !off.includes("drop")];
  if (system === "nexus") {
    const words = [...(isPacked ? [] : ["oblivious"]), ...(isEarly ? [] : ["lazy"])];
    return policyNamed(words.length === 0 ? "nexus" : `nexus:${words.join(",")}`);
  }
  const create: SimClusterFactory = isEarly
    ? policyNamed("default")
    : (options) => new TuttiCluster(options, { policy: { kind: "adaptive" }, gather: "head", knows: "distributions" });
  if (isPacked) return create;
  return (options) => {
    const loads = options.models.map(({ profile, slo, share }) => ({ profile, limit: slo, rate: share }));
    const groups = wholeAccelerators(loads, options.gpus);
    const clusterOf = new Int32Array(options.models.length);
    for (const [i, group] of groups.entries()) for (const model of group.loads) clusterOf[model] = i;
    return inSubClusters({ clusterOf, gpus: groups.map(({ gpus }) => gpus) }, create)(options);
  };
}
