/**
 * Splits requests with several rows, and joins their answers. The cluster takes one row a request and forms its own
 * batches.
 */
import { BATCH_AXIS, type ModelSpec, type Tensor, TuttiError, elementCount } from "@tutti/protocol";

/** Whether the model's tensors all begin with the batch axis. */
export const hasRows = ({ inputs, outputs }: Pick<ModelSpec, "inputs" | "outputs">): boolean =>
  [...inputs, ...outputs].every(({ dims }) => dims[0] === BATCH_AXIS);

/** Rows that one request may have. 0 means, as in Triton, that the model has no batch axis of its own. */
export const maxRowsOf = (spec: Pick<ModelSpec, "inputs" | "outputs" | "batchSizeMax">): number =>
  hasRows(spec) ? spec.batchSizeMax : 0;

/**
 * Largest number of elements of an input: of all rows of a request, with every axis at its longest.
 *
 * @throws {TuttiError} INVALID_INPUT: the model has no such input
 */
export function elementsMax(spec: Sized, name: string): number {
  const input = spec.inputs.find((one) => one.name === name);
  if (input === undefined) throw invalid(`"${spec.name}" has no input "${name}"`);
  const rows = Math.max(1, maxRowsOf(spec));
  const longest = (axis: string): number => Math.max(1, ...(spec.axes[axis]?.sizes ?? []));
  return elementCount(
    input.dims.map((dim) => (dim === BATCH_AXIS ? rows : typeof dim === "number" ? dim : longest(dim))),
  );
}
type Sized = Pick<ModelSpec, "name" | "inputs" | "outputs" | "batchSizeMax" | "axes">;

/**
 * Splits a request into its rows; `[inputs]` for a single row, and for inputs that the ingress judges.
 *
 * @throws {TuttiError} INVALID_INPUT when inputs disagree about their number, are more than the model takes, or have
 *   rows of another shape or datatype. The ingress would show a single row, which the client has not sent
 */
export function splitRows(
  spec: Pick<ModelSpec, "name" | "inputs" | "outputs" | "batchSizeMax">,
  inputs: readonly Tensor[],
): readonly (readonly Tensor[])[] {
  const [first] = inputs;
  if (first === undefined || !hasRows(spec)) return [inputs];
  const rank = spec.inputs.find(({ name }) => name === first.name)?.dims.length;
  const rows = first.dims.length === rank ? (first.dims[0] ?? 1) : 1;
  if (rows === 1) return [inputs];
  for (const input of inputs) checkRows(spec, input);
  if (rows < 1 || rows > spec.batchSizeMax)
    throw invalid(
      `${rows} rows: "${spec.name}" takes 1 to ${spec.batchSizeMax} in a request; send more as several requests`,
    );
  const other = inputs.find(({ dims }) => dims[0] !== rows);
  if (other !== undefined)
    throw invalid(`input "${first.name}" has ${rows} rows, but "${other.name}" has ${other.dims[0] ?? "none"}`);
  return Array.from({ length: rows }, (_, row) =>
    inputs.map(({ name, type, dims, data }) => {
      const each = data.byteLength / rows;
      return { name, type, dims: [1, ...dims.slice(1)], data: data.subarray(row * each, (row + 1) * each) };
    }),
  );
}

function checkRows({ inputs }: Pick<ModelSpec, "inputs">, { name, type, dims }: Tensor): void {
  const expected = inputs.find((input) => input.name === name);
  if (expected === undefined || expected.dims.length !== dims.length) return;
  const fits = expected.dims.every((size, axis) => typeof size === "string" || size === dims[axis]);
  if (fits && expected.type === type) return;
  throw invalid(
    `input "${name}": expected ${expected.type}[${expected.dims.join(", ")}], got ${type}[${dims.join(", ")}]`,
  );
}

/** @throws {TuttiError} INVALID_INPUT where the rows' outputs have different shapes */
export function joinRows(answers: readonly (readonly Tensor[])[]): readonly Tensor[] {
  const [first = []] = answers;
  if (answers.length === 1) return first;
  return first.map((output, i) => {
    const parts = answers.map((answer) => answer[i]!);
    const odd = parts.find(({ dims }) => dims.join() !== output.dims.join());
    if (odd !== undefined)
      throw invalid(
        `output "${output.name}" is [${output.dims.join(", ")}] for one row and [${odd.dims.join(", ")}] for another: send them one by one`,
      );
    const data = new Uint8Array(output.data.byteLength * parts.length);
    parts.forEach((part, row) => data.set(part.data, row * output.data.byteLength));
    return { ...output, dims: [parts.length, ...output.dims.slice(1)], data };
  });
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
