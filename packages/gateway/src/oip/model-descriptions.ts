/** Descriptions of the server and its models for the Open Inference Protocol and Triton's extensions. Pure. */
import type { CatalogModel } from "@tutti/actors";
import { presentationOf } from "@tutti/onnx-tools";
import {
  type DescribedTensor,
  type ModelSpec,
  type PipelineReport,
  TUTTI_RELEASE,
  type TensorSpec,
  publicNameOf,
} from "@tutti/protocol";
import { hasRows, maxRowsOf } from "./batch-rows.ts";

export const SERVER_NAME = "tutti";
export const EXTENSIONS = [
  ...([
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "parameters",
  ] as const),
  ...(["schedule_policy", "sequence", "statistics", "trace"] as const),
] as const;

export const isServed = ({ status, lease }: CatalogModel): boolean => status?.state === "ready" && lease !== undefined;

/** @param more - extensions that this gateway was started with */
export const serverMetadata = (more: readonly string[]) => ({
  name: SERVER_NAME,
  version: TUTTI_RELEASE,
  extensions: [...EXTENSIONS, ...more],
});

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  /** -1: any size. */
  readonly shape: readonly number[];
}

/** An axis that varies, the batch included, is -1. */
const shapeOf = (dims: TensorSpec["dims"]): number[] => dims.map((dim) => (typeof dim === "number" ? dim : -1));
const tensorMetadata = ({ name, type, dims }: TensorSpec): TensorMetadata => ({
  name,
  datatype: type,
  shape: shapeOf(dims),
});
const platformOf = ({ engine }: ModelSpec): string => (engine === "onnx" ? "onnxruntime_onnx" : "emulated");

/** @param versions - all served versions */
export const modelMetadata = ({ spec }: CatalogModel, versions: readonly string[] = [spec.version]) => ({
  name: publicNameOf(spec.name),
  versions: [...versions],
  platform: platformOf(spec),
  inputs: spec.inputs.map(tensorMetadata),
  outputs: spec.outputs.map(tensorMetadata),
});

/** A pipeline by its declaration; Triton calls a model of models an ensemble. */
export const pipelineMetadata = ({ name, version, inputs, outputs }: PipelineReport) => ({
  ...{ name, versions: [version], platform: "ensemble", inputs, outputs },
});

/** Triton calls them TYPE_… and strings TYPE_STRING. */
export const configType = (type: string): string => `TYPE_${type === "BYTES" ? "STRING" : type}`;

/** Triton's model configuration: `dims` without the batch axis where `max_batch_size` announces one. */
export function modelConfig({ spec }: CatalogModel) {
  const dimsOf = ({ dims }: TensorSpec): number[] => shapeOf(hasRows(spec) ? dims.slice(1) : dims);
  const { input } = presentationOf(spec.presentation);
  const tensor = (one: TensorSpec) => ({ name: one.name, data_type: configType(one.type), dims: dimsOf(one) });
  return {
    name: publicNameOf(spec.name),
    platform: platformOf(spec),
    backend: spec.engine === "onnx" ? "onnxruntime" : "emulated",
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: maxRowsOf(spec),
    input: spec.inputs.map(tensor),
    output: spec.outputs.map(tensor),
    parameters: {
      slo_us: { string_value: String(spec.slo) },
      patience: { string_value: String(spec.patience) },
      batch_size_max: { string_value: String(spec.batchSizeMax) },
      ...(input !== undefined && { preprocess: { string_value: JSON.stringify(input) } }),
    },
  };
}

/** The configuration of a pipeline as Triton has that of an ensemble, without the maps between its tensors. */
export function pipelineConfig({ name, slo, stages, inputs, outputs }: PipelineReport) {
  const tensor = ({ name: of, datatype, shape }: DescribedTensor) => ({
    ...{ name: of, data_type: configType(datatype), dims: shape },
  });
  return {
    ...{ name, platform: "ensemble", backend: "", max_batch_size: 0 },
    version_policy: { latest: { num_versions: 1 } },
    input: inputs.map(tensor),
    output: outputs.map(tensor),
    ensemble_scheduling: { step: stages.map(({ model }) => ({ model_name: model, model_version: -1 })) },
    parameters: { slo_us: { string_value: String(slo) } },
  };
}

export interface IndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: "READY" | "LOADING" | "UNAVAILABLE";
  readonly reason: string;
}

/** @param unloaded - models that were unloaded; of two of one name and version the other counts */
export function indexEntries(models: readonly CatalogModel[], unloaded: Iterable<ModelSpec>): IndexEntry[] {
  const there = new Set(models.map(({ spec }) => spec.name));
  const gone = [...unloaded]
    .filter(({ name }) => !there.has(name))
    .map(({ name, version }) => ({
      ...{ name: publicNameOf(name), version, state: "UNAVAILABLE" as const, reason: "unloaded" },
    }));
  return [...models.map(indexEntry), ...gone];
}

function indexEntry(model: CatalogModel): IndexEntry {
  const { spec, status } = model;
  const state = isServed(model)
    ? "READY"
    : status === undefined || ["loading", "profiling", "ready"].includes(status.state)
      ? "LOADING"
      : "UNAVAILABLE";
  return { name: publicNameOf(spec.name), version: spec.version, state, reason: status?.reason ?? "" };
}
