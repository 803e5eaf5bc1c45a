/** Reads `pipelines` of a scenario file. */
import { PIPELINE_REQUESTS_MAX, checkGraph } from "@tutti/pipelines";
import { QueryShapeError } from "@tutti/planning";
import type { Scenario, ScenarioPipeline, ScenarioStage } from "@tutti/simulator";
import { millis } from "@tutti/units";
import type { Problem } from "./located-yaml.ts";
import type { ModelEntry, Stream, ZooEntry } from "./scenario-models.ts";

/** The schema has checked these. */
export interface PipelineEntry {
  readonly name: string;
  readonly sloMs: number;
  readonly weight?: number;
  readonly split?: "planned" | "even";
  readonly stages: readonly StageEntry[];
}

interface StageEntry {
  readonly model: string;
  /** Default: the model's name. */
  readonly name?: string;
  readonly after?: readonly string[];
  readonly fanOut?: number;
  readonly stepMs?: number;
}

type Models = ZooEntry | readonly (ModelEntry | ZooEntry)[];

/**
 * Sets defaults for models beside pipelines: weight 0, and the largest SLO of the pipelines that use the model. Such
 * models get requests of their own only if they have a weight, and need their own SLO only then.
 */
export function modelsBeside(pipelines: readonly PipelineEntry[], models: Models): Models {
  const beside = <One extends ModelEntry | ZooEntry>(entry: One): One => {
    const users =
      "zoo" in entry ? [] : pipelines.filter(({ stages }) => stages.some(({ model }) => model === entry.name));
    const isOwn = (entry.weight ?? 0) > 0 || entry.classes !== undefined || users.length === 0;
    const slo = isOwn ? {} : { sloMs: Math.max(...users.map(({ sloMs }) => sloMs)) };
    return { weight: 0, ...slo, ...entry };
  };
  return "zoo" in models ? beside(models) : models.map(beside);
}

/** Reads pipelines without shares, which are computed later over pipelines and models together. */
export function pipelinesOf(
  entries: readonly PipelineEntry[],
  streams: readonly Stream[],
  problems: Problem[],
): Omit<ScenarioPipeline, "share">[] {
  const places = new Map(streams.map(({ model }, i) => [model.name, i]));
  const taken = new Set(places.keys());
  return entries.map(({ name, sloMs, split = "planned", stages }, i) => {
    const path = ["pipelines", i];
    if (taken.has(name))
      problems.push({ path: [...path, "name"], text: `something else is called "${name}"; give it another name` });
    taken.add(name);
    const read = stages.map((entry, j) => stageOf(entry, places, [...path, "stages", j], problems));
    checkShape(read, path, problems);
    checkFanOut(read, path, problems);
    for (const [j, { model }] of read.entries()) {
      if (streams[model]?.model.dynamic === undefined) continue;
      problems.push({ path: [...path, "stages", j, "model"], text: "a stage's model can't be dynamic" });
    }
    return { name, slo: millis(sloMs), split, stages: read };
  });
}

function stageOf(
  { model, name = model, after = [], fanOut = 1, stepMs = 0 }: StageEntry,
  places: ReadonlyMap<string, number>,
  path: Problem["path"],
  problems: Problem[],
): ScenarioStage {
  if (!places.has(model)) {
    const text = `there is no model "${model}"; describe it under models, which has ${[...places.keys()].slice(0, 20).join(", ")}`;
    problems.push({ path: [...path, "model"], text });
  }
  return { name, model: places.get(model) ?? 0, after, fanOut, step: millis(stepMs) };
}

function checkShape(stages: readonly ScenarioStage[], path: Problem["path"], problems: Problem[]): void {
  try {
    checkGraph({ stages: stages.map(({ name, after }) => ({ name, after, model: "", before: "" })) });
  } catch (error) {
    if (!(error instanceof QueryShapeError)) throw error;
    problems.push({ path: [...path, "stages"], text: error.message });
  }
}

/** Applies production's limit on the requests of one instance. */
function checkFanOut(stages: readonly ScenarioStage[], path: Problem["path"], problems: Problem[]): void {
  const all = new Map<string, number>();
  let total = 0;
  for (const { name, after, fanOut } of stages) {
    const requests = Math.ceil(fanOut) * (after.length === 1 ? (all.get(after[0]!) ?? 1) : 1);
    all.set(name, requests);
    total += requests;
  }
  if (total <= PIPELINE_REQUESTS_MAX) return;
  const text = `one request makes up to ${total} of its stages; ${PIPELINE_REQUESTS_MAX} is the limit`;
  problems.push({ path: [...path, "stages"], text });
}

/** Reports keys that can't be combined with pipelines. */
export function checkBesidePipelines(
  document: Readonly<Record<string, unknown>>,
  scenario: Pick<Scenario, "pipelines">,
  problems: Problem[],
): void {
  if (scenario.pipelines === undefined) return;
  const unfit = {
    planner: "a planner and pipelines don't go together yet",
    subClusters: "sub-clusters and pipelines don't go together yet",
    interference: "parts of accelerators and pipelines don't go together yet",
    load: "with pipelines give rate: requests per second of pipelines and models together",
    popularity: "with pipelines, pipelines and models have a weight each",
  };
  for (const [key, text] of Object.entries(unfit))
    if (document[key] !== undefined) problems.push({ path: [key], at: "key", text });
}
