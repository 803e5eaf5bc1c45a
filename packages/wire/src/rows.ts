/** Turns a request's tensors into the row that it adds to a batch. */
import {
  BATCH_AXIS,
  type InferRequest,
  type ModelSpec,
  type RowLayout,
  type Tensor,
  type TensorSpec,
  TuttiError,
  isExact,
  paddedAxes,
  rowLayout,
  unitsOfLengths,
  writeLengths,
  writeVariant,
} from "@tutti/protocol";
import { copyBlock, fillWith } from "./blocks.ts";

/** A row as rowLayout() describes it, of the least bucket that fits. */
export interface FilledRow {
  readonly bucket: number;
  /** A size hint: the product of the lengths of the axes that are padded within a batch; 0 for a model without one. */
  readonly units: number;
  /**
   * The row: freshly allocated, since tensors may be views of a borrowed payload. Or a tensor that is all of it and was
   * given away.
   */
  readonly row: Uint8Array;
}

/**
 * Checks a request against its model and writes its inputs to a row. The batch axis is 1 or left out. Variable axes
 * grow to their bucket's size: the places behind the data hold the axis' padValue. Axes in mode `pad` keep their
 * lengths, with which the row begins: they are padded where the batch is known.
 *
 * @param isOwned - the request's tensors were given away: nobody changes them any more
 * @throws {TuttiError} INVALID_INPUT naming the tensor, what was expected, what came, and the buckets
 */
export function fillRow(spec: ModelSpec, request: InferRequest, isOwned = false): FilledRow {
  const tensors = matchTensors(spec, request.inputs);
  const sizes: Record<string, number> = {};
  const shapes = spec.inputs.map((input, i) => checkShape(spec, input, tensors[i]!, sizes));
  const bucket = spec.buckets.length === 0 ? 0 : spec.buckets.findIndex((candidate) => fits(spec, candidate, sizes));
  if (bucket < 0) throw noBucket(spec, sizes);
  const lengths = paddedAxes(spec).map((axis) => sizes[axis] ?? 1);
  const layout = lengths.length > 0 ? rowLayout(spec, bucket, lengths) : layoutFor(spec, bucket);
  const only = isOwned && tensors.length === 1 && spec.variant === undefined ? tensors[0]!.data : undefined;
  // No lengths before it, nothing to pad, no other input.
  if (only?.byteLength === layout.byteLength && lengths.length === 0) {
    // A small part of a large message would hold all of it.
    if (2 * only.byteLength >= only.buffer.byteLength) return { bucket, units: 0, row: only };
  }
  const row = new Uint8Array(layout.byteLength);
  writeLengths(row, lengths);
  if (spec.variant !== undefined) writeVariant(row, spec.variant.index);
  spec.inputs.forEach((input, i) => {
    const place = layout.inputs[i]!;
    const { data } = tensors[i]!;
    if (data.byteLength === place.byteLength) row.set(data, place.offset);
    else growInto(row, place, { spec, input, from: shapes[i]!, data });
  });
  return { bucket, units: unitsOfLengths(lengths), row };
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
      if (!Object.hasOwn(sizes, expected)) sizes[expected] = size;
      else if (sizes[expected] !== size) throw mismatch(`: ${expected} is ${sizes[expected]} in another input`);
    }
  });
  if (Object.keys(sizes).length > 0 && spec.buckets.length === 0) throw noBucket(spec, sizes);
  return dims;
}

function fits(spec: ModelSpec, bucket: ModelSpec["buckets"][number], sizes: Record<string, number>): boolean {
  for (const axis in sizes) {
    const declared = spec.axes[axis];
    const room = declared?.mode === "pad" ? Math.max(...declared.sizes) : bucket[axis];
    if (declared === undefined || room === undefined || sizes[axis]! > room) return false;
    if (sizes[axis] !== room && isExact(declared)) return false;
  }
  return true;
}

function noBucket(spec: ModelSpec, sizes: Record<string, number>): TuttiError {
  const got = Object.entries(sizes).map(([axis, size]) => `${axis}=${size}`);
  for (const axis of paddedAxes(spec)) {
    const longest = Math.max(...spec.axes[axis]!.sizes);
    if ((sizes[axis] ?? 0) > longest) return invalid(`${axis}=${sizes[axis]}: ${spec.name} takes at most ${longest}`);
  }
  for (const [axis, declared] of Object.entries(spec.axes)) {
    const [only] = declared.sizes;
    if (isExact(declared) && sizes[axis] !== undefined && sizes[axis] !== only)
      return invalid(`${axis}=${sizes[axis]}: ${spec.name} takes ${only} alone, which \`mixed: true\` would pad to`);
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

/** Copies a tensor into the low corner of a larger one of the same rank. */
function growInto(row: Uint8Array, place: RowLayout["inputs"][number], { spec, input, from, data }: Growth): void {
  const area = row.subarray(place.offset, place.offset + place.byteLength);
  fillWith(area, input.name, { type: input.type, value: padValueOf(place, spec, input, from) });
  copyBlock(
    { bytes: data, dims: from, byteOffset: 0 },
    { bytes: area, dims: place.dims, byteOffset: 0 },
    { shape: from, type: input.type },
  );
}

/** The value of the first axis that grows; a tensor with two growing axes that pad differently has no better answer. */
function padValueOf(
  place: RowLayout["inputs"][number],
  spec: ModelSpec,
  input: TensorSpec,
  from: readonly number[],
): number {
  const grown = input.dims.find((dim, axis) => typeof dim === "string" && from[axis]! < place.dims[axis]!);
  return (grown === undefined ? undefined : spec.axes[String(grown)]?.padValue) ?? 0;
}

const describeTensor = ({ type, dims }: Tensor): string => `${type}[${dims.join(", ")}]`;
const describeInput = ({ type, dims }: TensorSpec): string =>
  `${type}[${dims.map((dim) => (dim === BATCH_AXIS ? 1 : dim)).join(", ")}]`;
const describeInputs = (spec: ModelSpec): string =>
  spec.inputs.map((input) => `"${input.name}" ${describeInput(input)}`).join(", ");
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
