/**
 * Models and their statuses as the store holds them. They are JSON that operators may edit, and an accepted one is in
 * every actor's catalog, so whatever readers rely on is validated (T8). Only values that would break a reader are
 * refused; the profiler decides whether a model can be served.
 */
import { BUCKETS_MAX, type Micros, type ThreadId, threadId } from "@tutti/units";
import { FamilySpec, VARIANT_INPUT, partsFit, variantBytes } from "./families.ts";
import { BATCH_SIZE_MAX, SLO_US_MAX, TENSORS_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";
import { isShares } from "./shares.ts";
import { BATCH_AXIS, ConstantSpec, TensorSpec, alignTo8, bytesOf } from "../messages/tensor.ts";
import {
  AxisSpec,
  BucketSpec,
  CutSpec,
  MadeSpec,
  lengthsBytes,
  longestLengths,
  paddedAxes,
  paddingProblem,
  sizesOfRow,
} from "./variable-axes.ts";
import { splitModelName } from "./versions.ts";

/** Bytes of the largest row that the data plane carries. */
const ROW_BYTES_MAX = 33_554_432;
const LATENCY_US_MAX = 10 * SLO_US_MAX;

/**
 * Least idle time before a model is parked, µs: figures come once a second, and a model that is used must show in them.
 */
export const IDLE_LEAST = 5_000_000;

/** A latency table: latency in µs by batch size, each size once. */
const ProfilePoints = schema.distinct(
  schema.record({ batchSize: schema.batchSize, latency: schema.whole<Micros>(0, LATENCY_US_MAX) }),
  BATCH_SIZE_MAX,
  ({ batchSize }) => batchSize,
);
export type ProfilePoints = Static<typeof ProfilePoints>;
const pointsByBucket = schema.list(ProfilePoints, BUCKETS_MAX);

const amount = schema.between(0, Number.MAX_VALUE);
/**
 * Run time of an emulated model as a function of its inputs. For k rows it is fixedMs + (unitMs + rowUnitMs · k) · the
 * length of the longest row.
 */
const PaceSpec = schema.record({
  fixedMs: amount,
  /** Time for each unit of the longest row, once a batch: batching saves it. */
  unitMs: amount,
  /** Time for each unit of the longest row, for each row. */
  rowUnitMs: amount,
  /** The padded axis that gives a row's length; undefined: its length is the first number of its first input. */
  axis: schema.optional(schema.text()),
  max: amount,
  typical: amount,
});
export type PaceSpec = Static<typeof PaceSpec>;

const ScaleToZero = schema.record({
  /** Time without a request after which no executor keeps it. */
  idle: schema.whole<Micros>(IDLE_LEAST, Number.MAX_SAFE_INTEGER),
  /** Time that a request for the parked model has beyond its SLO. */
  coldStart: schema.slo,
});
export type ScaleToZero = Static<typeof ScaleToZero>;

/** Specification of a model to serve: the value of its key in the bucket `tutti_models`. */
const ModelSpec = schema.record({
  name: schema.modelName,
  /** Unique within the cluster for ever: the revision of the first entry. Thread ids derive from it. */
  number: schema.model,
  version: schema.text(),
  engine: schema.oneOf(["onnx", "emulated"]),
  /** Object in `tutti_files`; absent for emulated models. */
  file: schema.optional(
    schema.record({ object: schema.text(), sha256: schema.text(), bytes: schema.whole(0, 2 ** 40) }),
  ),
  /** Bytes of the weights on an accelerator, if that isn't the size of the file, as for an emulated model. */
  memory: schema.optional(schema.whole(0, 2 ** 50)),
  slo: schema.slo,
  batchSizeMax: schema.batchSize,
  /** 0 = eager (lowest latency) … 1 = full deferral (largest batches). */
  patience: schema.between(0, 1),
  /**
   * Weights of applications under overload, by name; `*` for all others (1 when left out). Without `shares`, an
   * application's weight is its usual rate. docs/algorithms.md, A12. A model is served whether or not they can be read.
   */
  shares: schema.optional(schema.unchecked(isShares)),
  /** Part of an application's share that its lower priorities keep; 0.1 when left out or unreadable. */
  priorityFloor: schema.optional(schema.unchecked<number>()),
  inputs: schema.list(TensorSpec, TENSORS_MAX),
  outputs: schema.list(TensorSpec, TENSORS_MAX),
  constants: schema.list(ConstantSpec, TENSORS_MAX),
  axes: schema.map(AxisSpec),
  /** Inputs that the executor makes from the lengths of the rows: masks, lengths. */
  made: schema.optional(schema.list(MadeSpec, TENSORS_MAX)),
  /**
   * How axes of outputs follow padded axes of inputs, by name. An output axis named like an input's has the same
   * length.
   */
  cuts: schema.optional(schema.map(CutSpec)),
  buckets: schema.list(BucketSpec, BUCKETS_MAX),
  /** Time after which a run counts as hung and its executor is ended; by default derived from the model's latency. */
  runDeadline: schema.optional(schema.runTime),
  /** The publisher vouches that no row of a batch changes another's answer, so that executors don't try it. */
  independentRows: schema.optional(schema.flag),
  /** A model that is parked while nobody asks for it (docs/planning.md, Scale to zero). */
  scaleToZero: schema.optional(ScaleToZero),
  /** Emulated models whose run time depends on the inputs: that dependence. */
  pace: schema.optional(PaceSpec),
  /** Latency tables given instead of measured ones, by bucket index. */
  profile: schema.optional(pointsByBucket),
  /** Object in `tutti_files` with inputs to profile with: a msgpack list of binary tensor messages. */
  samples: schema.optional(schema.text()),
  /**
   * Families: the variants and what they share. The last input is then VARIANT_INPUT, and the outputs are those of the
   * variants.
   */
  family: schema.optional(FamilySpec),
  /** Variant's views only (variantView): the family and the index in it. Never in the store. */
  variant: schema.optional(schema.record({ family: schema.text(), index: schema.count })),
  /** How files become tensors and outputs become text (`tutti infer --input scan.png`); free form, used by the CLI. */
  presentation: schema.optional(schema.map(schema.unchecked())),
});
export type ModelSpec = Static<typeof ModelSpec>;

/** Validates everything that readers of a stored specification rely on (T8). */
export const isModelSpec = stored(
  "model",
  1,
  schema.also(
    ModelSpec,
    (spec) => hasOwnVersion(spec) && spec.variant === undefined && hasFamily(spec) && hasRows(spec),
  ),
);

/**
 * An entry that no reader serves: the number of a model which is about to be written, or a model which was unloaded and
 * may be asked for again.
 */
export const Reservation = stored(
  "reserved number of a model",
  1,
  schema.record({ reserved: schema.flag, unloaded: schema.optional(ModelSpec) }),
);

/** Unloaded models that are kept; beyond, the one that was unloaded first is gone. */
export const UNLOADED_MODELS_MAX = 64;
/** Keys of models that were unloaded and are kept. A model's own name has no dot. */
export const unloadedKeys = {
  prefix: "unloaded.",
  model: (name: string): string => `unloaded.${name}`,
} as const;

const hasOwnVersion = ({ name, version }: ModelSpec): boolean =>
  [undefined, version].includes(splitModelName(name).version);

/** A family's last input holds each row's variant, and no other model has such an input. */
function hasFamily({ family, inputs, file }: ModelSpec): boolean {
  const marked = inputs.filter(({ name }) => name === VARIANT_INPUT);
  if (family === undefined) return marked.length === 0;
  const last = inputs.at(-1);
  const isLast = last?.name === VARIANT_INPUT && last.type === "UINT16" && String(last.dims) === BATCH_AXIS;
  return marked.length === 1 && isLast && partsFit(family, file?.bytes ?? 0);
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

/** Executor types whose profiles are kept of one model. */
export const TYPES_MAX = 16;

/** Status of a model, as the profiler publishes it in `tutti_profiles` under the model's name. */
export const isModelStatus = stored(
  "status of a model",
  1,
  schema.record({
    name: schema.text(),
    number: schema.model,
    version: schema.text(),
    state: schema.oneOf(["loading", "profiling", "ready", "refused", "failed", "quarantined"]),
    /** Reason why the model is refused, failed or quarantined, and what to do. */
    reason: schema.text(),
    /** Planning latencies (typical runs) by bucket index; empty until profiled. */
    profiles: pointsByBucket,
    /** Mean latencies, kept for accounting. */
    means: pointsByBucket,
    executorTypes: schema.list(schema.text(), 1_024),
    /**
     * The same by executor type, once types were measured apart; `profiles` are then the slowest of those that serve.
     */
    byType: schema.optional(
      schema.list(
        schema.record({
          ...{ type: schema.text(), profiles: pointsByBucket, means: pointsByBucket },
          /** Its accelerators get none of the model's batches. Default: false. */
          unfit: schema.optional(schema.flag),
          /** Planning latencies by live runs, of a type that serves; absent: `profiles`, as measured at load. */
          live: schema.optional(pointsByBucket),
        }),
        TYPES_MAX,
      ),
    ),
  }),
);
export type ModelStatus = Static<typeof isModelStatus>;

/** Bytes of the model's weights on an accelerator, as far as known before it is loaded. */
export const memoryOf = (spec: Pick<ModelSpec, "memory" | "file">): number => spec.memory ?? spec.file?.bytes ?? 0;

export const threadOf = (spec: ModelSpec, bucket: number): ThreadId => threadId(spec.number, bucket);
/** `ocr-rec`, or `ocr-rec@W=160` for a bucket: for logs, tables and metrics. */
export function threadName(spec: ModelSpec, bucket: number): string {
  const sizes = Object.entries(spec.buckets[bucket] ?? {});
  return sizes.length === 0 ? spec.name : `${spec.name}@${sizes.map(([axis, size]) => `${axis}=${size}`).join(",")}`;
}

/** Dims of one request's tensor in a bucket: the batch axis is 1, variable axes have their bucket's size. */
export function rowDims(tensor: TensorSpec, bucket: BucketSpec): number[] {
  return tensor.dims.map((dim) => (dim === BATCH_AXIS ? 1 : typeof dim === "number" ? dim : (bucket[dim] ?? -1)));
}

/** Position of each input in a row: the inputs in the spec's order, each at a multiple of 8 bytes. */
export interface RowLayout {
  readonly byteLength: number;
  readonly inputs: readonly {
    readonly offset: number;
    readonly byteLength: number;
    readonly dims: readonly number[];
    readonly batchAxis: number;
  }[];
}

/**
 * Layout of a row, which is one request's part of a batch. The executor knows the layout from the spec, so rows have no
 * header but the lengths of padded axes.
 *
 * @param lengths - of the padded axes; the longest when left out
 */
export function rowLayout(
  spec: Pick<ModelSpec, "inputs" | "axes" | "buckets" | "variant">,
  bucket: number,
  lengths: readonly number[] = longestLengths(spec),
): RowLayout {
  const sizes = sizesOfRow(spec, bucket, lengths);
  let offset = lengthsBytes(spec);
  const inputs = spec.inputs.map((tensor) => {
    const dims = rowDims(tensor, sizes);
    const byteLength = dims.reduce((product, dim) => product * dim, 1) * bytesOf(tensor.type);
    const input = { offset, byteLength, dims, batchAxis: tensor.dims.indexOf(BATCH_AXIS) };
    offset += alignTo8(byteLength);
    return input;
  });
  return { byteLength: offset + variantBytes(spec), inputs };
}

/** Every combination of the bucketed axes' sizes, least volume first. */
export function bucketsOf(axes: ModelSpec["axes"]): BucketSpec[] {
  let combinations: Record<string, number>[] = [{}];
  for (const [axis, { mode, sizes }] of Object.entries(axes)) {
    if (mode !== "bucket") continue;
    combinations = combinations.flatMap((combination) => sizes.map((size) => ({ ...combination, [axis]: size })));
  }
  const volume = (bucket: BucketSpec): number => Object.values(bucket).reduce((product, size) => product * size, 1);
  return combinations.sort((a, b) => volume(a) - volume(b));
}
