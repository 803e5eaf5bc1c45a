/** The tensors of numbers that the cluster gets of inputs as clients send them: BYTES and BF16 end here. */
import { type MediaInput, presentationOf } from "@tutti/onnx-tools";
import { type ModelSpec, type Tensor, TuttiError, elementCount } from "@tutti/protocol";
import { unpackElements } from "./bytes-elements.ts";
import { type GivenTensor, isNumeric, noStrings } from "./given-tensors.ts";

/**
 * What the cluster gets of an input: BF16 as the model's own FP32, and a file for a pipeline as its bytes.
 *
 * @param spec - undefined: a pipeline, whose inputs are not known here
 * @throws {TuttiError} INVALID_INPUT for what the model doesn't take
 */
export function numbersOf(spec: Described | undefined, tensor: GivenTensor): Tensor {
  if (isNumeric(tensor)) return tensor;
  if (tensor.type === "BF16") return widened(spec, tensor);
  if (spec !== undefined) throw noStrings(tensor.name, `"${spec.name}" takes numbers`);
  const file = fileOf(tensor);
  return { name: tensor.name, type: "UINT8", dims: [file.byteLength], data: file };
}

/**
 * BF16 as FP32, of which it is the first half: every value is kept exactly.
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
 * What a model makes of a picture or sound that is sent as its input.
 *
 * @throws {TuttiError} INVALID_INPUT where it takes none, or as another input
 */
export function mediaOf({ name: model, presentation }: Described, { name }: GivenTensor): MediaInput {
  const { input } = presentationOf(presentation);
  if (input === undefined)
    throw noStrings(
      name,
      `"${model}" takes no picture or sound: its configuration names no pre-processor (preprocess)`,
    );
  if (input.tensor === name) return input;
  throw noStrings(name, `"${model}" takes a picture or sound as its input "${input.tensor}"`);
}

/** The file that is the only element of a tensor. @throws {TuttiError} INVALID_INPUT where there are others, or none */
export function fileOf({ name, dims, data }: GivenTensor): Uint8Array {
  const file = elementCount(dims) === 1 ? unpackElements(data, 1)?.[0] : undefined;
  if (file !== undefined) return file;
  throw invalid(
    `input "${name}": BYTES is taken as one element, a whole file, of shape [1] and with its length in four bytes before it`,
  );
}

type Described = Pick<ModelSpec, "name" | "inputs" | "presentation">;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
