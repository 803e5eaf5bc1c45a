import { type Micros, type ThreadId, threadId } from "@tutti/units";
import { type DataType, alignTo8, bytesOf } from "./tensor.ts";
import { type FamilySpec, variantBytes } from "./families.ts";
import { type CutSpec, type MadeSpec, lengthsBytes, longestLengths, sizesOfRow } from "./variable-axes.ts";

/** The symbolic name that marks the batch axis in `dims`. */
export const BATCH_AXIS = "batch";

/** One input or output: `dims` are numbers, the name of a variable axis (`W`), or `batch`. */
export interface TensorSpec {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly (number | string)[];
}

/**
 * An input that is the same for every request (a sampling rate, a threshold). The executor feeds it; nobody sends it.
 */
export interface ConstantSpec {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly values: readonly number[];
}

/**
 * A variable axis. `bucket`: inputs are padded with `padValue` up to the next size, and each combination of sizes is a
 * ModelThread of its own. `pad`: one ModelThread; rows keep their lengths, and are padded to the longest of their
 * batch.
 */
export interface AxisSpec {
  readonly mode: "bucket" | "pad";
  /** `bucket`: the sizes. `pad`: only the longest accepted length. */
  readonly sizes: readonly number[];
  readonly padValue: number;
  /** `pad`: padding values of inputs that differ from `padValue`, by name. */
  readonly padValues?: Readonly<Record<string, number>>;
  /** `pad`: a batch's length is a multiple of this, so that few shapes occur; 1 when left out. */
  readonly multiple?: number;
  /** `pad`: the length to measure and warm up with; the longest when left out. */
  readonly typical?: number;
  /**
   * `pad`: false where padding changes the model's results (attention over the whole width, a mean over it). Rows of a
   * batch then run together only if their lengths round up to the same multiple, so that each gets the result it gets
   * alone.
   */
  readonly mixed?: boolean;
}

/**
 * One combination of axis sizes; `{}` for a model without variable axes. Buckets are ordered by volume, least first.
 */
export type BucketSpec = Readonly<Record<string, number>>;

/** A latency table given by hand: latency in µs by batch size. */
export type ProfilePoints = readonly { readonly batchSize: number; readonly latency: Micros }[];

/**
 * Run time of an emulated model as a function of its inputs. For k rows it is fixedMs + (unitMs + rowUnitMs · k) · the
 * length of the longest row.
 */
export interface PaceSpec {
  readonly fixedMs: number;
  /** Time for each unit of the longest row, once a batch: batching saves it. */
  readonly unitMs: number;
  /** Time for each unit of the longest row, for each row. */
  readonly rowUnitMs: number;
  /** The padded axis that gives a row's length; undefined: its length is the first number of its first input. */
  readonly axis?: string;
  readonly max: number;
  readonly typical: number;
}

/** Specification of a model to serve: the value of its key in the bucket `tutti_models`. */
export interface ModelSpec {
  readonly name: string;
  /** Unique within the cluster for ever: the revision of the first entry. Thread ids derive from it. */
  readonly number: number;
  readonly version: string;
  readonly engine: "onnx" | "emulated";
  /** Object in `tutti_files`; absent for emulated models. */
  readonly file?: { readonly object: string; readonly sha256: string; readonly bytes: number };
  /** Bytes of the weights on an accelerator, if that isn't the size of the file, as for an emulated model. */
  readonly memory?: number;
  readonly slo: Micros;
  readonly batchSizeMax: number;
  /** 0 = eager (lowest latency) … 1 = full deferral (largest batches). */
  readonly patience: number;
  /**
   * Weights of applications under overload, by name; `*` for all others (1 when left out). Without `shares`, an
   * application's weight is its usual rate. docs/algorithms.md, A12.
   */
  readonly shares?: Readonly<Record<string, number>>;
  /** Part of an application's share that its lower priorities keep; 0.1 when left out. */
  readonly priorityFloor?: number;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly constants: readonly ConstantSpec[];
  readonly axes: Readonly<Record<string, AxisSpec>>;
  /** Inputs that the executor makes from the lengths of the rows: masks, lengths. */
  readonly made?: readonly MadeSpec[];
  /**
   * How axes of outputs follow padded axes of inputs, by name. An output axis named like an input's has the same
   * length.
   */
  readonly cuts?: Readonly<Record<string, CutSpec>>;
  readonly buckets: readonly BucketSpec[];
  /** Time after which a run counts as hung and its executor is ended; by default derived from the model's latency. */
  readonly runDeadline?: Micros;
  /** Emulated models whose run time depends on the inputs: that dependence. */
  readonly pace?: PaceSpec;
  /** Latency tables given instead of measured ones, by bucket index. */
  readonly profile?: readonly ProfilePoints[];
  /** Object in `tutti_files` with inputs to profile with: a msgpack list of binary tensor messages. */
  readonly samples?: string;
  /**
   * Families: the variants and what they share. The last input is then VARIANT_INPUT, and the outputs are those of the
   * variants.
   */
  readonly family?: FamilySpec;
  /** Variant's views only (variantView): the family and the index in it. Never in the store. */
  readonly variant?: { readonly family: string; readonly index: number };
  /** How files become tensors and outputs become text (`tutti infer --input scan.png`); free form, used by the CLI. */
  readonly presentation?: Readonly<Record<string, unknown>>;
}

/** Status of a model, as the profiler publishes it in `tutti_profiles` under the model's name. */
export interface ModelStatus {
  readonly name: string;
  readonly number: number;
  readonly version: string;
  readonly state: "loading" | "profiling" | "ready" | "refused" | "failed" | "quarantined";
  /** Reason why the model is refused, failed or quarantined, and what to do. */
  readonly reason: string;
  /** Planning latencies (a high quantile) by bucket index; empty until profiled. */
  readonly profiles: readonly ProfilePoints[];
  /** Mean latencies, kept for accounting. */
  readonly means: readonly ProfilePoints[];
  readonly executorTypes: readonly string[];
}

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
