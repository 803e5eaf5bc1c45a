/** Converts inputs as clients send them into the tensors of numbers that the cluster gets: BYTES and BF16 end here. */
import { type MediaInput, presentationOf } from "@tutti/onnx-tools";
import { type ModelSpec, type Tensor, TuttiError, elementCount } from "@tutti/protocol";
import { linesOf, unpackElements } from "./bytes-elements.ts";
import { type GivenTensor, isNumeric, noStrings } from "./given-tensors.ts";

/**
 * Converts an input for the cluster: BF16 becomes the model's own FP32, and BYTES for a pipeline a file's bytes or
 * lines of text.
 *
 * @param spec - undefined: a pipeline, whose inputs are not known here
 * @throws {TuttiError} INVALID_INPUT for an input that the model doesn't take
 */
export function numbersOf(spec: Described | undefined, tensor: GivenTensor): Tensor {
  if (isNumeric(tensor)) return tensor;
  if (tensor.type === "BF16") return widened(spec, tensor);
  if (spec !== undefined) throw noStrings(tensor.name, `"${spec.name}" takes numbers`);
  const { name, dims, data: packed } = tensor;
  const data = linesOf(name, elementCount(dims), packed);
  return { name, type: "UINT8", dims: [data.byteLength], data };
}

/**
 * Widens BF16 to FP32, of which it is the upper half: every value is kept exactly.
 *
 * @throws {TuttiError} INVALID_INPUT where the model's input of this name has another type
 */
export function widened(spec: Described | undefined, { name, dims, data }: GivenTensor): Tensor {
  if (spec === undefined) throw invalid(`input "${name}": a pipeline takes no BF16; send FP16 or FP32`);
  const own = spec.inputs.find((input) => input.name === name);
  if (own === undefined) throw invalid(`"${spec.name}" has no input "${name}"`);
  if (own.type !== "FP32")
    throw invalid(`input "${name}" is ${own.type}, and BF16 becomes FP32 only; send ${own.type}`);
  const halves =
    data.byteOffset % 2 === 0
      ? new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2)
      : new Uint16Array(new Uint8Array(data).buffer);
  const wide = new Uint16Array(2 * halves.length);
  for (let i = 0; i < halves.length; i++) wide[2 * i + 1] = halves[i]!;
  return { name, type: "FP32", dims, data: new Uint8Array(wide.buffer) };
}

/**
 * The model's input for a picture or sound that is sent as this tensor.
 *
 * @throws {TuttiError} INVALID_INPUT where it takes none, or as another input
 */
export function mediaOf({ name: model, presentation }: Described, { name, isText }: GivenTensor): MediaInput {
  const { input } = presentationOf(presentation);
  if (input === undefined)
    throw noStrings(
      name,
      `"${model}" takes no picture or sound: its configuration names no pre-processor (preprocess)`,
    );
  if (isText === true)
    throw noStrings(name, "A picture or sound is sent as bytes behind the JSON (binary_data_size), not as text in it");
  if (input.tensor === name) return input;
  throw noStrings(name, `"${model}" takes a picture or sound as its input "${input.tensor}"`);
}

/**
 * The file that is the only element of a tensor. @throws {TuttiError} INVALID_INPUT for any other number of elements
 */
export function fileOf({ name, dims, data }: GivenTensor): Uint8Array {
  const file = elementCount(dims) === 1 ? unpackElements(data, 1)?.[0] : undefined;
  if (file !== undefined) return file;
  throw invalid(
    `input "${name}": BYTES is taken as one element, a whole file, of shape [1] and with its length in four bytes before it`,
  );
}

type Described = Pick<ModelSpec, "name" | "inputs" | "presentation">;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
