/**
 * Validates values of the store before anything uses them. They are JSON that operators may edit, and an accepted one
 * is in every actor's catalog (T8). Only values that would break a reader are refused here; the profiler decides
 * whether a model can be served.
 */
import { BUCKETS_MAX } from "@tutti/units";
import { BATCH_SIZE_MAX, RANK_MAX, SLO_US_MAX, TENSORS_MAX } from "./limits.ts";
import {
  type AxisSpec,
  BATCH_AXIS,
  type ConstantSpec,
  type ModelSpec,
  type ModelStatus,
  type PaceSpec,
  type ProfilePoints,
  type TensorSpec,
  rowLayout,
} from "./model-spec.ts";
import { VARIANT_INPUT, isFamily } from "./families.ts";
import { isDataType } from "./tensor.ts";
import { isModelName, splitModelName } from "./versions.ts";
import { type CutSpec, type MadeSpec, paddedAxes, paddingProblem } from "./variable-axes.ts";

/** Bytes of the largest row that the data plane carries. */
const ROW_BYTES_MAX = 33_554_432;
const SIZE_MAX = 2 ** 31;
/** Bound of model numbers: thread ids, number × 64 + bucket, are 32 bits wide. */
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
  const { mode, sizes, padValue, padValues, multiple, typical, mixed }: Unknown<AxisSpec> = value;
  return (
    (mode === "bucket" || mode === "pad") &&
    isListOf(sizes, BUCKETS_MAX, (size) => isWhole(size, 1, SIZE_MAX)) &&
    isNumber(padValue) &&
    isOptional(padValues, (values) => isMap(values) && Object.values(values).every(isNumber)) &&
    isOptional(multiple, (step) => isWhole(step, 1, Math.max(1, ...(sizes as number[])))) &&
    isOptional(typical, (length) => isWhole(length, 1, Math.max(1, ...(sizes as number[])))) &&
    isOptional(mixed, (flag) => typeof flag === "boolean")
  );
};

const isMade = (value: unknown): boolean => {
  if (!isTensor(value)) return false;
  const { made, axis }: Unknown<MadeSpec> = value as Unknown<MadeSpec>;
  return (made === "mask" || made === "lengths") && isText(axis);
};
const isCut = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { axis, divide, add }: Unknown<CutSpec> = value;
  return isText(axis) && isWhole(divide, 1, SIZE_MAX) && isWhole(add, 0, SIZE_MAX);
};

const isPace = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { axis, ...times }: Unknown<PaceSpec> = value;
  const numbers = [times.fixedMs, times.unitMs, times.rowUnitMs, times.max, times.typical];
  return isOptional(axis, isText) && numbers.every((ms) => isNumber(ms) && (ms as number) >= 0 && ms !== Infinity);
};

const isPoint = (point: unknown): boolean =>
  isMap(point) && isWhole(point["batchSize"], 1, BATCH_SIZE_MAX) && isWhole(point["latency"], 0, LATENCY_US_MAX);
const LATENCY_US_MAX = 10 * SLO_US_MAX;

/** True if no batch size occurs twice. */
const isPoints = (value: unknown): value is ProfilePoints =>
  isListOf(value, BATCH_SIZE_MAX, isPoint) &&
  new Set((value as ProfilePoints).map(({ batchSize }) => batchSize)).size === (value as ProfilePoints).length;
const isPointsByBucket = (value: unknown): boolean => isListOf(value, BUCKETS_MAX, isPoints);

const isFile = (value: unknown): boolean =>
  isMap(value) && isText(value["object"]) && isText(value["sha256"]) && isWhole(value["bytes"], 0, 2 ** 40);

/** Validates everything that readers of a spec rely on. */
export function isModelSpec(value: unknown): value is ModelSpec {
  if (!isMap(value)) return false;
  const spec: Unknown<ModelSpec> = value;
  const isShaped =
    typeof spec.name === "string" &&
    isModelName(spec.name) &&
    isWhole(spec.number, 0, NUMBER_MAX - 1) &&
    isText(spec.version) &&
    [undefined, spec.version].includes(splitModelName(spec.name).version) &&
    (spec.engine === "onnx" || spec.engine === "emulated") &&
    isOptional(spec.file, isFile) &&
    isOptional(spec.memory, (memory) => isWhole(memory, 0, 2 ** 50)) &&
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
    isOptional(spec.made, (made) => isListOf(made, TENSORS_MAX, isMade)) &&
    isOptional(spec.cuts, (cuts) => isMap(cuts) && Object.values(cuts).every(isCut)) &&
    isOptional(spec.pace, isPace) &&
    isOptional(spec.profile, isPointsByBucket) &&
    isOptional(spec.samples, isText) &&
    isOptional(spec.presentation, isMap);
  return isShaped && hasFamily(spec) && hasRows(value as unknown as ModelSpec);
}

/** A family's last input holds each row's variant, and no other model has such an input. */
function hasFamily({ family, variant, inputs, file }: Unknown<ModelSpec>): boolean {
  const list = inputs as readonly TensorSpec[];
  const marked = list.filter(({ name }) => name === VARIANT_INPUT);
  if (variant !== undefined) return false;
  if (family === undefined) return marked.length === 0;
  const last = list.at(-1);
  const isMarked =
    marked.length === 1 && last?.name === VARIANT_INPUT && last.type === "UINT16" && String(last.dims) === BATCH_AXIS;
  const fileBytes = (file as ModelSpec["file"])?.bytes;
  const isCuts = (cuts: unknown): boolean => isMap(cuts) && Object.values(cuts).every(isCut);
  return isMarked && isFamily(family, { fileBytes, isTensor, isCuts });
}

/** A short request is padded to its bucket's size, so the bucket bounds the memory that it allocates. */
function hasRows(spec: ModelSpec): boolean {
  const padded = paddedAxes(spec);
  const isOurs = (dim: number | string): boolean =>
    typeof dim === "number" || dim === BATCH_AXIS || padded.includes(dim);
  const isMadeWell = ({ axis, dims }: MadeSpec): boolean => padded.includes(axis) && dims.every(isOurs);
  if (!(spec.made ?? []).every(isMadeWell) || paddingProblem(spec) !== undefined) return false;
  const buckets = Math.max(1, spec.buckets.length);
  for (let bucket = 0; bucket < buckets; bucket++) {
    // Check each one by itself too: their sum is of 32 bits.
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
