/** Turns a user's file into a model's input tensors: JSON, NumPy, pictures, sound, or random numbers without a file. */
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { type TensorInput, type TensorValue, tensor, tensorValue } from "@tutti/client";
import { mediaTensors } from "@tutti/onnx-tools/media";
import { type AudioInput, type MediaKind, mediaInputOf, presentationOf, readNpy } from "@tutti/onnx-tools";
import {
  type ModelSpec,
  type TensorSpec,
  elementCount,
  isDataType,
  rowDims,
  sizesOfRow,
  typicalLengths,
} from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { CommandError, fileProblem } from "@tutti/admin";

export type Inputs = Readonly<Record<string, TensorInput>>;
/** The fields of a model that say how to read files for it. A model that is not loaded yet has no others. */
export type Readable = Pick<ModelSpec, "name" | "inputs" | "axes" | "buckets" | "presentation">;
/** One request, or sound cut into frames, each of which needs the state that the one before it returned. */
export type ReadInput =
  | { readonly kind: "one"; readonly inputs: Inputs }
  | { readonly kind: "frames"; readonly audio: AudioInput; readonly frames: readonly TensorValue[] };

/** Media types by extension, as the gateway accepts them. */
const MEDIA: ReadonlyMap<string, MediaKind> = new Map([
  [".jpg", "picture"],
  [".jpeg", "picture"],
  [".png", "picture"],
  [".webp", "picture"],
  [".wav", "sound"],
]);

/** Files that `readInput` reads. */
export const INPUT_EXTENSIONS: readonly string[] = [".json", ".npy", ...MEDIA.keys()];

/** @throws {CommandError | TuttiError} saying what is wrong with the file */
export async function readInput(path: string, spec: Readable): Promise<ReadInput> {
  const kind = extname(path).toLowerCase();
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--input ${path}: ${fileProblem(error)}`);
  });
  if (kind === ".json") return { kind: "one", inputs: fromJson(new TextDecoder().decode(bytes), path, spec) };
  if (kind === ".npy") return { kind: "one", inputs: fromNpy(bytes, spec) };
  const media = MEDIA.get(kind);
  if (media !== undefined) return fromMedia(bytes, { media, path, spec });
  throw new CommandError(`--input ${path}: take a .json, .npy, .jpg, .png, .webp or .wav file`);
}

async function fromMedia(
  bytes: Uint8Array,
  { media, path, spec }: { readonly media: MediaKind; readonly path: string; readonly spec: Readable },
): Promise<ReadInput> {
  try {
    const input = mediaInputOf({ name: spec.name, input: presentationOf(spec.presentation).input }, media);
    const tensors = (await mediaTensors(bytes, input)).map((one) => [one.name, tensorValue(one)] as const);
    if (input.kind === "audio") return { kind: "frames", audio: input, frames: tensors.map(([, value]) => value) };
    return { kind: "one", inputs: Object.fromEntries(tensors) };
  } catch (error) {
    throw new CommandError(`--input ${path}: ${(error as Error).message}; it takes ${inputsOf(spec)}`);
  }
}

/**
 * Random numbers from a seed, in the shapes that the model declares. A model with several shapes gets the smallest, and
 * variable lengths get the typical one.
 */
export function randomInputs(spec: Readable, seed: number): Inputs {
  const prng = new Prng(seed);
  const sizes = sizesOfRow(spec, 0, typicalLengths(spec));
  return Object.fromEntries(
    spec.inputs.map((input) => {
      const dims = rowDims(input, sizes);
      const real = input.type === "FP32" || input.type === "FP64";
      const next = (): number => (real ? prng.nextFloat() * 2 - 1 : prng.nextInt(input.type === "BOOL" ? 2 : 10));
      if (input.type === "FP16") return [input.name, tensor(new Uint16Array(elementCount(dims)), dims, "FP16")];
      return [input.name, tensor(Array.from({ length: elementCount(dims) }, next), dims, input.type)];
    }),
  );
}

/** Parses `{ "x": [[…]] }`, or the Open Inference Protocol's `{ "inputs": [{ name, shape, datatype, data }] }`. */
function fromJson(text: string, path: string, spec: Readable): Inputs {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(`--input ${path} is no JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null) throw new CommandError(`--input ${path}: ${jsonForms(spec)}`);
  if ("inputs" in value && Array.isArray(value.inputs)) return Object.fromEntries(value.inputs.map(fromProtocol));
  const types = new Map(spec.inputs.map((input) => [input.name, input]));
  const inputs = Object.entries(value).map(([name, data]): [string, TensorInput] => {
    const declared = types.get(name);
    if (declared === undefined) throw new CommandError(`${spec.name} has no input "${name}": ${jsonForms(spec)}`);
    const list: unknown = Array.isArray(data) ? data : [data];
    return [name, reshaped(tensor(list as number[], undefined, declared.type), declared)];
  });
  if (inputs.length === 0) throw new CommandError(`--input ${path}: ${jsonForms(spec)}`);
  return Object.fromEntries(inputs);
}

/** Parses a tensor of the Open Inference Protocol. */
export function fromProtocol(item: unknown): [string, TensorInput] {
  const { name, shape, datatype, data } = item as Record<string, unknown>;
  const typed = typeof datatype === "string" && isDataType(datatype) ? datatype : undefined;
  if (typeof name !== "string" || !Array.isArray(data) || typed === undefined) {
    throw new CommandError('each of "inputs" needs a name, a datatype such as FP32, a shape and data');
  }
  const flat = (data as unknown[]).flat(Infinity) as number[];
  return [name, tensor(flat, Array.isArray(shape) ? (shape as number[]) : undefined, typed)];
}

/**
 * Gives a flat list the declared shape if the element counts match. For example, 256 numbers fit [batch, 16, 16] in one
 * way only. The ingress judges every other shape.
 */
function reshaped(value: TensorValue, declared: TensorSpec): TensorValue {
  const dims = rowDims(declared, {});
  const fits = value.dims.length === 1 && !dims.includes(-1) && elementCount(dims) === value.data.length;
  return fits ? { ...value, dims } : value;
}

function fromNpy(bytes: Uint8Array, spec: Readable): Inputs {
  const [input, ...others] = spec.inputs;
  if (input === undefined || others.length > 0) {
    throw new CommandError(`${spec.name} takes ${inputsOf(spec)}, and a .npy file holds one array: give them as JSON`);
  }
  return { [input.name]: tensorValue(readNpy(bytes, { name: input.name, type: input.type })) };
}

const inputsOf = (spec: Readable): string =>
  spec.inputs.map(({ name, type, dims }) => `${name} (${type} [${dims.join(", ")}])`).join(" and ");
const jsonForms = (spec: Readable): string =>
  `write { "${spec.inputs[0]?.name ?? "x"}": [numbers], … } for ${inputsOf(spec)}`;
