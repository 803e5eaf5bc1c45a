/**
 * Inputs as clients send them, and the tensors of numbers that the cluster gets of them. BYTES and BF16 exist in the
 * protocol only: they end here, and nothing behind the gateway knows them.
 */
import { type DataType, type ModelSpec, type Tensor, TuttiError, bytesOf, isDataType } from "@tutti/protocol";

export type GivenType = DataType | "BF16";
export interface GivenTensor {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
  /** Row-major and little-endian. */
  readonly data: Uint8Array;
}

export const isNumeric = (tensor: GivenTensor): tensor is Tensor => isDataType(tensor.type);

/** Bytes of one element. */
export const givenBytesOf = (type: GivenType): number => (type === "BF16" ? 2 : bytesOf(type));

/**
 * BF16 as the model's own FP32, of which it is the first half: every value is kept exactly.
 *
 * @param spec - undefined: a pipeline, whose inputs are not known here
 * @throws {TuttiError} INVALID_INPUT where the model's input of this name has another type
 */
export function widened(spec: Pick<ModelSpec, "name" | "inputs"> | undefined, tensor: GivenTensor): Tensor {
  const { name, dims, data } = tensor;
  if (spec === undefined) throw invalid(`input "${name}": a pipeline takes no BF16; send FP16 or FP32`);
  const own = spec.inputs.find((input) => input.name === name);
  if (own === undefined) throw invalid(`"${spec.name}" has no input "${name}"`);
  if (own.type !== "FP32") throw invalid(`input "${name}" is ${own.type}, and BF16 becomes FP32 only; send ${own.type}`);
  const halves =
    data.byteOffset % 2 === 0
      ? new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2)
      : new Uint16Array(data.slice().buffer);
  const wide = new Uint16Array(2 * halves.length);
  for (let i = 0; i < halves.length; i++) wide[2 * i + 1] = halves[i]!;
  return { name, type: "FP32", dims, data: new Uint8Array(wide.buffer) };
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
