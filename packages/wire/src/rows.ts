/** From a request's tensors to the row that it contributes to a batch. */
import {
  BATCH_AXIS,
  type InferRequest,
  type ModelSpec,
  type RowLayout,
  type Tensor,
  type TensorSpec,
  TuttiError,
  bytesOf,
  rowLayout,
} from "@tutti/protocol";
import { bytesFromJson } from "./elements.ts";

/** A row as rowLayout() describes it, of the least bucket that fits. */
export interface FilledRow {
  readonly bucket: number;
  /** Freshly allocated: the tensors may be views of a borrowed payload. */
  readonly row: Uint8Array;
}

/**
 * Checks a request against its model and lays its inputs out. The batch axis is 1 or left out. Variable axes grow to their bucket's size: the places
 * behind the data hold the axis' padValue. An axis in mode `pad` takes exactly its bucket's size, for padding within a batch is not served.
 * @throws {TuttiError} INVALID_INPUT naming the tensor, what was expected, what came, and the buckets
 */
export function fillRow(spec: ModelSpec, request: InferRequest): FilledRow {
  const tensors = matchTensors(spec, request.inputs);
  const sizes: Record<string, number> = {};
  const shapes = spec.inputs.map((input, i) => checkShape(spec, input, tensors[i]!, sizes));
  const bucket = spec.buckets.length === 0 ? 0 : spec.buckets.findIndex((candidate) => fits(spec, candidate, sizes));
  if (bucket < 0) throw noBucket(spec, sizes);
  const layout = layoutFor(spec, bucket);
  const row = new Uint8Array(layout.byteLength);
  spec.inputs.forEach((input, i) => {
    const place = layout.inputs[i]!;
    const { data } = tensors[i]!;
    if (data.byteLength === place.byteLength) row.set(data, place.offset);
    else growInto(row, place, { spec, input, from: shapes[i]!, data });
  });
  return { bucket, row };
}

const layouts = new WeakMap<ModelSpec, RowLayout[]>();
/** Layouts are derived once per spec object: fillRow runs for every request. */
function layoutFor(spec: ModelSpec, bucket: number): RowLayout {
  let known = layouts.get(spec);
  if (known === undefined) layouts.set(spec, (known = []));
  return (known[bucket] ??= rowLayout(spec, bucket));
}

/** The request's tensors in the order of the spec's inputs. */
function matchTensors(spec: ModelSpec, inputs: readonly Tensor[]): Tensor[] {
  for (let i = 0; i < inputs.length; i++) {
    const { name } = inputs[i]!;
    if (!spec.inputs.some((input) => input.name === name)) throw unknownTensor(spec, name);
    for (let k = 0; k < i; k++) if (inputs[k]!.name === name) throw invalid(`input "${name}" is there twice`);
  }
  return spec.inputs.map((input) => {
    const tensor = inputs.find(({ name }) => name === input.name);
    if (tensor === undefined)
      throw invalid(`input "${input.name}" is missing; ${spec.name} takes ${describeInputs(spec)}`);
    if (tensor.type !== input.type)
      throw invalid(`input "${input.name}": expected ${describeInput(input)}, got ${describeTensor(tensor)}`);
    return tensor;
  });
}

function unknownTensor(spec: ModelSpec, name: string): TuttiError {
  if (spec.constants.some((constant) => constant.name === name))
    return invalid(`input "${name}" is a constant of ${spec.name} and is not sent`);
  return invalid(`${spec.name} has no input "${name}"; it takes ${describeInputs(spec)}`);
}

/** The tensor's dims with the batch axis filled in; variable axes' sizes go to `sizes`. */
function checkShape(spec: ModelSpec, input: TensorSpec, tensor: Tensor, sizes: Record<string, number>): number[] {
  const batchAxis = input.dims.indexOf(BATCH_AXIS);
  const dims = [...tensor.dims];
  if (batchAxis >= 0 && dims.length === input.dims.length - 1) dims.splice(batchAxis, 0, 1);
  const mismatch = (why: string): TuttiError =>
    invalid(`input "${input.name}": expected ${describeInput(input)}, got ${describeTensor(tensor)}${why}`);
  if (dims.length !== input.dims.length) throw mismatch("");
  input.dims.forEach((expected, axis) => {
    const size = dims[axis]!;
    if (expected === BATCH_AXIS) {
      if (size !== 1) throw mismatch(": a request is one item, the batch axis is 1 or left out");
    } else if (typeof expected === "number") {
      if (size !== expected) throw mismatch("");
    } else {
      if (size < 1) throw mismatch(`: ${expected} is at least 1`);
      if ((sizes[expected] ??= size) !== size) throw mismatch(`: ${expected} is ${sizes[expected]} in another input`);
    }
  });
  if (Object.keys(sizes).length > 0 && spec.buckets.length === 0) throw noBucket(spec, sizes);
  return dims;
}

function fits(spec: ModelSpec, bucket: ModelSpec["buckets"][number], sizes: Record<string, number>): boolean {
  for (const axis in sizes) {
    const room = bucket[axis];
    if (room === undefined) return false;
    if (spec.axes[axis]?.mode === "pad" ? sizes[axis] !== room : sizes[axis]! > room) return false;
  }
  return true;
}

function noBucket(spec: ModelSpec, sizes: Record<string, number>): TuttiError {
  const got = Object.entries(sizes).map(([axis, size]) => `${axis}=${size}`);
  for (const [axis, { mode, sizes: declared }] of Object.entries(spec.axes)) {
    const size = sizes[axis];
    if (mode !== "pad" || size === undefined) continue;
    if (!spec.buckets.some((bucket) => bucket[axis] === size))
      return invalid(
        `${axis}=${size}: ${spec.name} takes ${declared.join(", ")} there; padding ${axis} within a batch is not served yet`,
      );
  }
  const buckets = spec.buckets.map((bucket) =>
    Object.entries(bucket)
      .map(([axis, size]) => `${axis}=${size}`)
      .join(","),
  );
  return invalid(`${got.join(", ")} fits none of the buckets of ${spec.name}: ${buckets.join("; ")}`);
}

interface Growth {
  readonly spec: ModelSpec;
  readonly input: TensorSpec;
  readonly from: readonly number[];
  readonly data: Uint8Array;
}

/** Copies a tensor into the low corner of a larger one of the same rank, in the longest runs that are contiguous in both. */
function growInto(row: Uint8Array, place: RowLayout["inputs"][number], { spec, input, from, data }: Growth): void {
  const to = place.dims;
  fillPadding(row, place, spec, input, from);
  let inner = to.length; // axes from here on are equal, so a run covers them all
  let run = bytesOf(input.type);
  while (inner > 0 && from[inner - 1] === to[inner - 1]) run *= to[--inner]!;
  let runBytes = run;
  if (inner > 0) runBytes *= from[--inner]!; // the innermost axis that grows: its used part is contiguous as well
  const strides = new Array<number>(inner);
  let stride = run * (to[inner] ?? 1);
  for (let axis = inner - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= to[axis]!;
  }
  const index = new Array<number>(inner).fill(0);
  for (let source = 0; source < data.byteLength; source += runBytes) {
    let target = place.offset;
    for (let axis = 0; axis < inner; axis++) target += index[axis]! * strides[axis]!;
    row.set(data.subarray(source, source + runBytes), target);
    for (let axis = inner - 1; axis >= 0; axis--) {
      if (++index[axis]! < from[axis]!) break;
      index[axis] = 0;
    }
  }
}

/** The value of the first axis that grows; a tensor with two growing axes that pad differently has no better answer. */
function fillPadding(
  row: Uint8Array,
  place: RowLayout["inputs"][number],
  spec: ModelSpec,
  input: TensorSpec,
  from: readonly number[],
): void {
  const grown = input.dims.find((dim, axis) => typeof dim === "string" && from[axis]! < place.dims[axis]!);
  const value = (grown === undefined ? undefined : spec.axes[String(grown)]?.padValue) ?? 0;
  if (value === 0) return;
  const element = bytesFromJson(input.name, input.type, [1], [input.type === "BOOL" ? value !== 0 : value]);
  const area = row.subarray(place.offset, place.offset + place.byteLength);
  area.set(element);
  for (let filled = element.byteLength; filled < area.byteLength; filled *= 2) area.copyWithin(filled, 0, filled);
}

const describeTensor = ({ type, dims }: Tensor): string => `${type}[${dims.join(", ")}]`;
const describeInput = ({ type, dims }: TensorSpec): string =>
  `${type}[${dims.map((dim) => (dim === BATCH_AXIS ? 1 : dim)).join(", ")}]`;
const describeInputs = (spec: ModelSpec): string =>
  spec.inputs.map((input) => `"${input.name}" ${describeInput(input)}`).join(", ");
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
