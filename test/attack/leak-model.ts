/**
 * ONNX models, written field by field, of which one tensor's data is in another file. The file's bytes would be their
 * outputs.
 */
import { type Field, bytes, int, message } from "./clients/protobuf.ts";

export const LEAK_PLACES = ["initializer", "constant", "branch", "function", "sparse"] as const;
export type LeakPlace = (typeof LEAK_PLACES)[number];

export interface LeakOptions {
  readonly place: LeakPlace;
  /** Undefined: the tensor's data is in the model, which is harmless. */
  readonly location: string | undefined;
}

/** Number of bytes that are read. */
export const WIDTH = 16;

// Numbers of onnx.proto.
const TYPE = { float: 1, uint8: 2, int64: 7, bool: 9 } as const;
const ATTRIBUTE = { int: 2, tensor: 4, graph: 5 } as const;
const [IR_VERSION, OPSET] = [8, 17];
const EXTERNAL = 1;
const DOMAIN = "leak";

/** y = x + the bytes; x and y are f32[batch, WIDTH]. */
export function leakModel({ place, location }: LeakOptions): Uint8Array {
  const tensor = leakTensor(location);
  const inBranch = message(node("Constant", [], ["raw"], tensorAttribute(tensor)), cast("raw", "leak"));
  const nodes: Readonly<Record<LeakPlace, readonly Uint8Array[]>> = {
    initializer: [cast("raw", "leak")],
    sparse: [cast("raw", "leak")],
    constant: [inBranch],
    branch: [node("If", ["yes"], ["leak"], branch("then_branch", inBranch), branch("else_branch", inBranch))],
    function: [node("Leak", [], ["raw"], bytes(7, DOMAIN)), cast("raw", "leak")],
  };
  const graph = message(
    ...nodes[place],
    node("Add", ["x", "leak"], ["y"]),
    bytes(2, "leak"),
    bytes(5, message(int(2, TYPE.bool), bytes(8, "yes"), bytes(9, Uint8Array.of(1)))),
    ...(place === "initializer" ? [bytes(5, tensor)] : []),
    bytes(11, value("x", TYPE.float, ["batch", WIDTH])),
    bytes(12, value("y", TYPE.float, ["batch", WIDTH])),
    ...(place === "sparse" ? [bytes(15, sparse(tensor))] : []),
  );
  const isFunction = place === "function";
  return message(
    int(1, IR_VERSION),
    bytes(7, graph),
    bytes(8, message(bytes(1, ""), int(2, OPSET))),
    ...(isFunction ? [bytes(8, message(bytes(1, DOMAIN), int(2, 1))), bytes(25, leakFunction(tensor))] : []),
  );
}

function leakTensor(location: string | undefined): Uint8Array {
  const head = [int(1, WIDTH), int(2, TYPE.uint8), bytes(8, "raw")];
  if (location === undefined) return message(...head, bytes(9, new Uint8Array(WIDTH).fill(7)));
  const entry = (key: string, text: string): Field => bytes(13, message(bytes(1, key), bytes(2, text)));
  return message(
    ...head,
    entry("location", location),
    entry("offset", "0"),
    entry("length", `${WIDTH}`),
    int(14, EXTERNAL),
  );
}

/** A node as a field of a graph. */
function node(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  ...more: readonly Field[]
): Field {
  const names = [...inputs.map((name) => bytes(1, name)), ...outputs.map((name) => bytes(2, name))];
  return bytes(1, message(...names, bytes(4, operator), ...more));
}

const cast = (from: string, to: string): Field =>
  node("Cast", [from], [to], bytes(5, message(bytes(1, "to"), int(3, TYPE.float), int(20, ATTRIBUTE.int))));

const tensorAttribute = (tensor: Uint8Array): Field =>
  bytes(5, message(bytes(1, "value"), bytes(5, tensor), int(20, ATTRIBUTE.tensor)));

function branch(name: string, nodes: Uint8Array): Field {
  const graph = message(nodes, bytes(2, name), bytes(12, value("leak", TYPE.float, [WIDTH])));
  return bytes(5, message(bytes(1, name), bytes(6, graph), int(20, ATTRIBUTE.graph)));
}

function sparse(values: Uint8Array): Uint8Array {
  const indices = Buffer.concat(Array.from({ length: WIDTH }, (_, i) => int64(i)));
  const places = message(int(1, WIDTH), int(2, TYPE.int64), bytes(8, "places"), bytes(9, indices));
  return message(bytes(1, values), bytes(2, places), int(3, WIDTH));
}

function int64(number: number): Buffer {
  const made = Buffer.alloc(8);
  made.writeBigInt64LE(BigInt(number));
  return made;
}

/** A function with the tensor: its nodes are field 7, where a graph's are field 1. */
function leakFunction(tensor: Uint8Array): Uint8Array {
  const constant = message(bytes(2, "raw"), bytes(4, "Constant"), tensorAttribute(tensor));
  const opset = bytes(9, message(bytes(1, ""), int(2, OPSET)));
  return message(bytes(1, "Leak"), bytes(5, "raw"), bytes(7, constant), opset, bytes(10, DOMAIN));
}

function value(name: string, type: number, dims: readonly (number | string)[]): Uint8Array {
  const sizes = dims.map((size) => bytes(1, typeof size === "number" ? int(1, size) : bytes(2, size)));
  return message(bytes(1, name), bytes(2, bytes(1, message(int(1, type), bytes(2, message(...sizes))))));
}
