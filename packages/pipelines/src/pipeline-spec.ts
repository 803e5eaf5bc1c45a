import { structureOf } from "@tutti/planning/split";
import type { DescribedTensor } from "@tutti/protocol";
import type { Micros } from "@tutti/units";

/** Most stages of a pipeline; more are taken for a mistake in the declaration. */
export const PIPELINE_STAGES_MAX = 32;
/** Most requests of one instance over all of its stages; beyond, TOO_LARGE naming the stage. */
export const PIPELINE_REQUESTS_MAX = 1_024;
/**
 * Most bytes of one instance between its stages: outputs, and values that functions keep; beyond, TOO_LARGE naming the
 * stage.
 */
export const PIPELINE_BYTES_MAX = 268_435_456;
/** Most instances in progress in one ingress; beyond, OVERLOADED. */
export const PIPELINE_INSTANCES_MAX = 10_000;

export interface StageSpec {
  readonly name: string;
  readonly model: string;
  /** Stages whose answers this stage waits for; the root has none. */
  readonly after: readonly string[];
  /** `./module.ts#name`: the function that makes the stage's requests. */
  readonly before: string;
}

/** A pipeline as it is declared. Its graph has one root and is series–parallel. */
export interface PipelineSpec {
  readonly name: string;
  readonly version: string;
  /** SLO of the whole pipeline, from arrival to answer. */
  readonly slo: Micros;
  /** How the SLO is divided: by docs/algorithms.md, C5, or in equal parts. */
  readonly split: "planned" | "even";
  readonly stages: readonly StageSpec[];
  /** `./module.ts#name`: the function that makes the answer. */
  readonly finish: string;
  /** Tensors that clients are told to send, and those they get; the functions check them. Default: nothing is said. */
  readonly inputs?: readonly DescribedTensor[];
  readonly outputs?: readonly DescribedTensor[];
}

type Graph = Pick<PipelineSpec, "stages">;

export const edgesOf = ({ stages }: Graph): (readonly [from: string, to: string])[] =>
  stages.flatMap(({ name, after }) => after.map((from) => [from, name] as const));

/** @throws {QueryShapeError} for a graph over which an SLO can't be divided */
export function checkGraph(graph: Graph): void {
  const none = { batchSizes: [], latency: () => Infinity };
  structureOf({
    stages: graph.stages.map(({ name }) => ({ name, latency: none, rate: 0 })),
    edges: edgesOf(graph),
  });
}

/** For each stage, all stages that end before it begins. */
export function ancestorsOf({ stages }: Graph): ReadonlyMap<string, ReadonlySet<string>> {
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  const known = new Map<string, Set<string>>();
  const visit = (name: string): Set<string> => {
    let all = known.get(name);
    if (all !== undefined) return all;
    known.set(name, (all = new Set()));
    for (const before of byName.get(name)!.after) {
      all.add(before);
      for (const earlier of visit(before)) all.add(earlier);
    }
    return all;
  };
  for (const { name } of stages) visit(name);
  return known;
}
