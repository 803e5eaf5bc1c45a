/** Requests, deadlines and least work that a pipeline of a scenario causes at its models. */
import { type PipelineSpec, type StageLoad, edgesOf, planBudgets } from "@tutti/pipelines";
import { splitLatency } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import { type Micros, micros } from "@tutti/units";
import type { GoodputBound } from "../bounds/bounds.ts";
import { modelWork } from "../scenario/model-work.ts";
import type { Scenario, ScenarioModel, ScenarioPipeline } from "../scenario/scenario.ts";

export interface PipelinePlan {
  readonly pipeline: ScenarioPipeline;
  readonly spec: PipelineSpec;
  /** Time from the arrival by which a stage has to have ended, by the stage's name. */
  readonly ends: ReadonlyMap<string, Micros>;
  /**
   * Least time that a stage's model has, by the stage's name: it counts from the latest end of the stages before, and
   * without the stage's function.
   */
  readonly budgets: ReadonlyMap<string, Micros>;
  /** Mean number of a stage's requests for each request to the pipeline. */
  readonly requests: ReadonlyMap<string, number>;
}

/**
 * Divides the SLO as production's ingresses do, with the profiles and fan-outs of the scenario in place of measured
 * ones.
 */
export function planPipeline(pipeline: ScenarioPipeline, models: readonly ScenarioModel[]): PipelinePlan {
  const spec = specOf(pipeline, models);
  const requests = meanRequests(pipeline);
  const loads = new Map(
    pipeline.stages.map(({ name, model, step }): [string, StageLoad] => [
      name,
      { latency: latencyOf(models[model]!.profile), requests: requests.get(name)!, stepMs: step / 1000 },
    ]),
  );
  const { ends } = planBudgets(spec, { stages: loads, finishMs: 0 });
  const endOf = (name: string): number => Math.floor(pipeline.slo * ends.get(name)!);
  const budgets = pipeline.stages.map(({ name, after, step }): [string, Micros] => {
    const begin = Math.max(0, ...after.map(endOf)) + step;
    return [name, micros(Math.max(0, endOf(name) - begin))];
  });
  return {
    pipeline,
    spec,
    requests,
    ends: new Map(pipeline.stages.map(({ name }) => [name, micros(endOf(name))])),
    budgets: new Map(budgets),
  };
}

/**
 * The scenario's models as a scheduler sees them while pipelines use them. Their shares are those of all requests.
 * Where publishers don't use a model directly, its SLO is the longest budget that a stage gives it.
 */
export function modelsUnderPipelines({ models }: Scenario, plans: readonly PipelinePlan[]): readonly ScenarioModel[] {
  const load = models.map(({ share }) => share);
  const longest = models.map(() => 0);
  for (const { pipeline, budgets, requests } of plans) {
    for (const { name, model } of pipeline.stages) {
      load[model]! += pipeline.share * requests.get(name)!;
      longest[model] = Math.max(longest[model]!, budgets.get(name)!);
    }
  }
  const total = load.reduce((sum, one) => sum + one, 0);
  return models.map((model, i) => ({
    ...model,
    share: load[i]! / total,
    slo: model.share > 0 || longest[i] === 0 ? model.slo : micros(longest[i]!),
  }));
}

/**
 * Bounds on the rate of publishers' requests: all batches at their cheapest (clairvoyant), and the splits of
 * docs/algorithms.md, C5, in which a batch fits once (staggered) or twice (uncoordinated) into its stage's budget.
 */
export function pipelineBound(scenario: Scenario): GoodputBound {
  const { models, pipelines = [], gpus } = scenario;
  const direct = models.reduce((sum, model) => sum + (model.share > 0 ? model.share * modelWork(model) : 0), 0);
  const rateOf = (work: number): number => (Number.isFinite(work) && work > 0 ? (gpus * 1e6) / work : 0);
  const least = pipelines.reduce((sum, pipeline) => sum + pipeline.share * leastWork(pipeline, models), 0);
  const split = (fits: number): number =>
    pipelines.reduce((sum, pipeline) => sum + pipeline.share * splitWork(pipeline, models, fits), 0);
  return {
    clairvoyantRps: rateOf(direct + least),
    staggeredRps: rateOf(direct + split(1)),
    uncoordinatedRps: rateOf(direct + split(2)),
  };
}

/** Accelerator time in µs for one of the pipeline's requests, in the cheapest batches that its SLO allows. */
function leastWork(pipeline: ScenarioPipeline, models: readonly ScenarioModel[]): number {
  const requests = meanRequests(pipeline);
  return pipeline.stages.reduce((sum, { name, model }) => {
    const { profile } = models[model]!;
    let least = Infinity;
    for (let b = 1; b <= profile.batchSizeMax && profile.latency(b) <= pipeline.slo; b++)
      least = Math.min(least, profile.latency(b) / b);
    return sum + requests.get(name)! * least;
  }, 0);
}

function splitWork(pipeline: ScenarioPipeline, models: readonly ScenarioModel[], fits: number): number {
  const requests = meanRequests(pipeline);
  const stages = pipeline.stages.map(({ name, model }) => ({
    name,
    latency: latencyOf(models[model]!.profile),
    rate: requests.get(name)!,
  }));
  const split = splitLatency(
    { stages, edges: edgesOf(specOf(pipeline, models)), bound: pipeline.slo / 1000 },
    { fits },
  );
  return split === undefined ? Infinity : split.executors * 1000;
}

function specOf({ name, slo, split, stages }: ScenarioPipeline, models: readonly ScenarioModel[]): PipelineSpec {
  return {
    name,
    version: "1",
    slo,
    split,
    stages: stages.map((stage) => ({
      name: stage.name,
      model: models[stage.model]!.name,
      after: stage.after,
      before: "",
    })),
    finish: "",
  };
}

/**
 * Mean number of each stage's requests for one request to the pipeline. A stage after one other has its fan-out for
 * each of that one's requests; a stage that joins several, for each of the pipeline's.
 */
function meanRequests({ stages }: ScenarioPipeline): ReadonlyMap<string, number> {
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  const known = new Map<string, number>();
  const visit = (name: string): number => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const { after, fanOut } = byName.get(name)!;
    const mean = fanOut * (after.length === 1 ? visit(after[0]!) : 1);
    known.set(name, mean);
    return mean;
  };
  for (const { name } of stages) visit(name);
  return known;
}

function latencyOf(profile: LatencyTable): StageLoad["latency"] & object {
  return {
    batchSizes: Array.from({ length: profile.batchSizeMax }, (_, i) => i + 1),
    latency: (b) => (b <= profile.batchSizeMax ? profile.latency(b) / 1000 : Infinity),
  };
}
