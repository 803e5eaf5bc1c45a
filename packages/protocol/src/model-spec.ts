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

/** An input that is the same for every request (a sampling rate, a threshold): fed by the executor, never sent. */
export interface ConstantSpec {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly values: readonly number[];
}

/**
 * A variable axis. `bucket`: inputs are padded with `padValue` up to the next size, each combination of sizes is a
 * ModelThread of its own. `pad`: one ModelThread; rows keep their lengths, and are padded to the longest of their
 * batch.
 */
export interface AxisSpec {
  readonly mode: "bucket" | "pad";
  /** `pad`: the longest that is taken, alone. */
  readonly sizes: readonly number[];
  readonly padValue: number;
  /** `pad`: of inputs that are padded with another value, by name. */
  readonly padValues?: Readonly<Record<string, number>>;
  /** `pad`: a batch's length is a multiple of this, so that few shapes occur; 1 when left out. */
  readonly multiple?: number;
  /** `pad`: the length that is measured and warmed up with; the longest when left out. */
  readonly typical?: number;
  /**
   * `pad`: false where padding changes what the model says of the data (attention over the whole width, a mean over
   * it). Rows of a batch then run together only where they grow to the same multiple, so that each gets what it gets
   * alone.
   */
  readonly mixed?: boolean;
}

/** One combination of axis sizes, least volume first; `{}` for a model without variable axes. */
export type BucketSpec = Readonly<Record<string, number>>;

/** A latency table given by hand: microseconds by batch size. */
export type ProfilePoints = readonly { readonly batchSize: number; readonly latency: Micros }[];

/**
 * How an emulated model's run time follows its inputs: fixedMs + (unitMs + rowUnitMs · k) · the length of the longest
 * of k rows.
 */
export interface PaceSpec {
  readonly fixedMs: number;
  /** For each unit of the longest row, once a batch: what batching saves. */
  readonly unitMs: number;
  /** For each unit of the longest row and each row. */
  readonly rowUnitMs: number;
  /** The padded axis that is a row's length; undefined: its length is the first number of its first input. */
  readonly axis?: string;
  readonly max: number;
  readonly typical: number;
}

/** A model as the cluster wants it served: the value of its key in the bucket `tutti_models`. */
export interface ModelSpec {
  readonly name: string;
  /** Unique within the cluster for ever: the revision of the first entry. Thread ids derive from it. */
  readonly number: number;
  readonly version: string;
  readonly engine: "onnx" | "emulated";
  /** Object in `tutti_files`; absent for emulated models. */
  readonly file?: { readonly object: string; readonly sha256: string; readonly bytes: number };
  /**
   * Bytes that its weights take on an accelerator, where that isn't the size of its file: of an emulated model, say.
   */
  readonly memory?: number;
  readonly slo: Micros;
  readonly batchSizeMax: number;
  /** 0 = eager (lowest latency) … 1 = full deferral (largest batches). */
  readonly patience: number;
  /**
   * Who counts how much when more comes than can be served: weights by application, `*` for all others (1 when left
   * out). Left out altogether, an application counts by its usual rate. docs/algorithms.md, A12.
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
   * How axes of outputs follow padded axes of inputs, by their names; an axis named like an input's is as long as that.
   */
  readonly cuts?: Readonly<Record<string, CutSpec>>;
  readonly buckets: readonly BucketSpec[];
  /** After which a run counts as hung and its executor is ended; by default reckoned from its latency. */
  readonly runDeadline?: Micros;
  /** Of an emulated model whose run time depends on its inputs. */
  readonly pace?: PaceSpec;
  /** Given instead of measured, by bucket index. */
  readonly profile?: readonly ProfilePoints[];
  /** Object in `tutti_files` with inputs to profile with: a msgpack list of binary tensor messages. */
  readonly samples?: string;
  /**
   * Of a family: its variants and what they share. Its last input is then VARIANT_INPUT, and its outputs are those of
   * its variants.
   */
  readonly family?: FamilySpec;
  /** Of a variant's view alone (variantView), never in the store. */
  readonly variant?: { readonly family: string; readonly index: number };
  /**
   * How people's files become tensors and outputs become text (`tutti infer --input scan.png`); free form, used by the
   * CLI.
   */
  readonly presentation?: Readonly<Record<string, unknown>>;
}

/** Life of a model, as the profiler publishes it in `tutti_profiles` under the model's name. */
export interface ModelStatus {
  readonly name: string;
  readonly number: number;
  readonly version: string;
  readonly state: "loading" | "profiling" | "ready" | "refused" | "failed" | "quarantined";
  /** Why it is refused, failed or quarantined, and what to do. */
  readonly reason: string;
  /** By bucket index; empty until profiled. Planning latencies (high quantile). */
  readonly profiles: readonly ProfilePoints[];
  /** Mean latencies, kept for accounting. */
  readonly means: readonly ProfilePoints[];
  readonly executorTypes: readonly string[];
}

/** What its weights take on an accelerator, as far as is known before it is loaded. */
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

/** Where each input lies in a row: the inputs in the spec's order, each at a multiple of 8 bytes. */
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
 * A row is what one request contributes to a batch; the executor knows the layout from the spec, so rows need no header
 * but the lengths of padded axes.
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
