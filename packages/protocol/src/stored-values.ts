/**
 * What values of the store must look like before anybody believes them: they are JSON that operators may edit, and one that is believed would stand in every
 * actor's catalog (T8). Whether a model can be served is for the profiler to say; here only what would break a reader is refused.
 */
import { BUCKETS_MAX } from "@tutti/units";
import { BATCH_SIZE_MAX, RANK_MAX, SLO_US_MAX, TENSORS_MAX, isName } from "./limits.ts";
import {
  type AxisSpec,
  type ConstantSpec,
  type ModelSpec,
  type ModelStatus,
  type ProfilePoints,
  type TensorSpec,
  rowLayout,
} from "./model-spec.ts";
import { isDataType } from "./tensor.ts";

/** The largest row that the data plane carries. */
const ROW_BYTES_MAX = 33_554_432;
const SIZE_MAX = 2 ** 31;
/** Thread ids, number × 64 + bucket, are 32 bits wide. */
const NUMBER_MAX = 2 ** 26;

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isListOf = (value: unknown, max: number, isItem: (item: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length <= max && value.every(isItem);
const isText = (value: unknown): boolean => typeof value === "string";
const isWhole = (value: unknown, min: number, max: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
const isOptional = (value: unknown, isGood: (value: unknown) => boolean): boolean =>
  value === undefined || isGood(value);

const isTensor = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { name, type, dims }: Unknown<TensorSpec> = value;
  const isDim = (dim: unknown): boolean => isText(dim) || isWhole(dim, 0, SIZE_MAX);
  return isText(name) && typeof type === "string" && isDataType(type) && isListOf(dims, RANK_MAX + 1, isDim);
};

const isConstant = (value: unknown): boolean => {
  if (!isTensor(value)) return false;
  const { dims, values } = value as Unknown<ConstantSpec>;
  return isListOf(dims, RANK_MAX, (dim) => isWhole(dim, 0, SIZE_MAX)) && isListOf(values, SIZE_MAX, isNumber);
};
const isNumber = (value: unknown): boolean => typeof value === "number";

const isAxis = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { mode, sizes, padValue }: Unknown<AxisSpec> = value;
  return (
    (mode === "bucket" || mode === "pad") &&
    isListOf(sizes, BUCKETS_MAX, (size) => isWhole(size, 1, SIZE_MAX)) &&
    isNumber(padValue)
  );
};

const isPoint = (point: unknown): boolean =>
  isMap(point) && isWhole(point["batchSize"], 1, BATCH_SIZE_MAX) && isWhole(point["latency"], 0, LATENCY_US_MAX);
const LATENCY_US_MAX = 10 * SLO_US_MAX;

/** No batch size twice. */
const isPoints = (value: unknown): value is ProfilePoints =>
  isListOf(value, BATCH_SIZE_MAX, isPoint) &&
  new Set((value as ProfilePoints).map(({ batchSize }) => batchSize)).size === (value as ProfilePoints).length;
const isPointsByBucket = (value: unknown): boolean => isListOf(value, BUCKETS_MAX, isPoints);

const isFile = (value: unknown): boolean =>
  isMap(value) && isText(value["object"]) && isText(value["sha256"]) && isWhole(value["bytes"], 0, 2 ** 40);

/** Everything that readers of a spec rely on. */
export function isModelSpec(value: unknown): value is ModelSpec {
  if (!isMap(value)) return false;
  const spec: Unknown<ModelSpec> = value;
  const isShaped =
    typeof spec.name === "string" &&
    isName(spec.name) &&
    isWhole(spec.number, 0, NUMBER_MAX - 1) &&
    isText(spec.version) &&
    (spec.engine === "onnx" || spec.engine === "emulated") &&
    isOptional(spec.file, isFile) &&
    isWhole(spec.slo, 1, SLO_US_MAX) &&
    isWhole(spec.batchSizeMax, 1, BATCH_SIZE_MAX) &&
    typeof spec.patience === "number" &&
    spec.patience >= 0 &&
    spec.patience <= 1 &&
    isListOf(spec.inputs, TENSORS_MAX, isTensor) &&
    isListOf(spec.outputs, TENSORS_MAX, isTensor) &&
    isListOf(spec.constants, TENSORS_MAX, isConstant) &&
    isMap(spec.axes) &&
    Object.values(spec.axes).every(isAxis) &&
    isListOf(
      spec.buckets,
      BUCKETS_MAX,
      (bucket) => isMap(bucket) && Object.values(bucket).every((size) => isWhole(size, 1, SIZE_MAX)),
    ) &&
    isOptional(spec.profile, isPointsByBucket) &&
    isOptional(spec.samples, isText) &&
    isOptional(spec.presentation, isMap);
  return isShaped && hasRows(value as unknown as ModelSpec);
}

/** A short request is padded to its bucket's size, so the bucket bounds what it allocates. */
function hasRows(spec: ModelSpec): boolean {
  const buckets = Math.max(1, spec.buckets.length);
  for (let bucket = 0; bucket < buckets; bucket++) {
    // Each by itself as well: their sum is of 32 bits.
    const { byteLength, inputs } = rowLayout(spec, bucket);
    if (!(byteLength <= ROW_BYTES_MAX && inputs.every((input) => input.byteLength <= ROW_BYTES_MAX))) return false;
  }
  return true;
}

const STATES: ReadonlySet<unknown> = new Set<ModelStatus["state"]>([
  "loading",
  "profiling",
  "ready",
  "refused",
  "failed",
  "quarantined",
]);

export function isModelStatus(value: unknown): value is ModelStatus {
  if (!isMap(value)) return false;
  const status: Unknown<ModelStatus> = value;
  return (
    isText(status.name) &&
    isWhole(status.number, 0, NUMBER_MAX - 1) &&
    isText(status.version) &&
    STATES.has(status.state) &&
    isText(status.reason) &&
    isPointsByBucket(status.profiles) &&
    isPointsByBucket(status.means) &&
    isListOf(status.executorTypes, 1_024, isText)
  );
}
