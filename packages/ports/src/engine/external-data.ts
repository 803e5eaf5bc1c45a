/**
 * Checks that an ONNX file refers to no data outside itself. Without the check, onnxruntime reads a tensor whose data
 * is "external" from wherever the file says, below the working directory or at an address of this process, and returns
 * it as an output. So no tensor may say so, wherever in the file it stands.
 *
 * The bytes are walked as protobuf's C++ parser reads them. Anything that it would read differently from other parsers
 * is refused: a field of another wire type than its own, a tag of more than 32 bits, a group.
 */

/** Deepest nesting: protobuf's C++ parser goes no deeper. */
const DEPTH_MAX = 100;

type Kind = "model" | "training" | "graph" | "node" | "function" | "attribute" | "sparse" | "tensor";

/** The fields through which a tensor can be reached, by the message that has them (onnx.proto3 of ONNX 1.20). */
const CHILDREN: Readonly<Record<Kind, Readonly<Record<number, Kind>>>> = {
  model: { 7: "graph", 20: "training", 25: "function" },
  training: { 1: "graph", 2: "graph" },
  graph: { 1: "node", 5: "tensor", 15: "sparse" },
  node: { 5: "attribute" },
  function: { 7: "node", 11: "attribute" },
  attribute: { 5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse" },
  sparse: { 1: "tensor", 2: "tensor" },
  tensor: {},
};
/** Field numbers of a tensor: `data_type`, `name`, `external_data`, `data_location` (0: in the file). */
const DATA_TYPE = 2;
const NAME = 8;
const EXTERNAL_DATA = 13;
const DATA_LOCATION = 14;

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/** Bytes 4 to 7 of a file in onnxruntime's own format, which it accepts in place of ONNX. */
const ORT_FORMAT = [0x4f, 0x52, 0x54, 0x4d];

/** @returns why a run of this file might use other bytes than its own; undefined: it can't */
export function externalDataProblem(bytes: Uint8Array): string | undefined {
  if (ORT_FORMAT.every((byte, i) => bytes[4 + i] === byte))
    return "the file is in onnxruntime's own format: give the .onnx file that it was made from";
  try {
    walk(new Cursor(bytes), "model", 0, ({ name, isExternal }) => {
      if (!isExternal) return;
      const which = name === "" ? "a tensor without a name" : `tensor '${name}'`;
      throw new Problem(
        `${which} lies outside the file: save the model as one file (onnx.save_model(m, path, save_as_external_data=False))`,
      );
    });
  } catch (error) {
    if (error instanceof Problem) return error.message;
    throw error;
  }
  return undefined;
}

/** Far above what ONNX numbers its element types: a hostile file has a type for each tensor (T7). */
const HIGHEST_TYPE = 255;

/**
 * Element types (`TensorProto.DataType`) of the tensors in an ONNX file, wherever in it they stand. Of a damaged file:
 * those before the damage.
 */
export function elementTypesIn(bytes: Uint8Array): ReadonlySet<number> {
  const types = new Set<number>();
  try {
    walk(new Cursor(bytes), "model", 0, ({ type }) => {
      if (type <= HIGHEST_TYPE) types.add(type);
    });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
  return types;
}

interface TensorHead {
  readonly name: string;
  readonly type: number;
  readonly isExternal: boolean;
}

class Problem extends Error {}

const damaged = (why: string): Problem => new Problem(`the model file is damaged (${why}): export it again`);

function walk(cursor: Cursor, kind: Kind, depth: number, onTensor: (tensor: TensorHead) => void): void {
  if (depth > DEPTH_MAX) throw damaged(`it is nested deeper than ${DEPTH_MAX}`);
  const children = CHILDREN[kind];
  let name = "";
  let type = 0;
  let isExternal = false;
  while (!cursor.isDone) {
    const { field, wireType } = cursor.tag();
    const child = children[field];
    if (kind === "tensor" && field === EXTERNAL_DATA) isExternal = true;
    if (child !== undefined) {
      if (wireType !== LENGTH_DELIMITED) throw damaged(`field ${field} of a ${kind} has wire type ${wireType}`);
      walk(cursor.message(), child, depth + 1, onTensor);
    } else if (kind === "tensor" && field === DATA_LOCATION) {
      if (wireType !== VARINT) throw damaged(`a tensor's location has wire type ${wireType}`);
      if (cursor.varint() !== 0) isExternal = true;
    } else if (kind === "tensor" && field === DATA_TYPE && wireType === VARINT) type = cursor.varint();
    else if (kind === "tensor" && field === NAME && wireType === LENGTH_DELIMITED) name = cursor.message().text();
    else cursor.skip(wireType);
  }
  if (kind === "tensor") onTensor({ name, type, isExternal });
}

class Cursor {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, at = 0, end = bytes.byteLength) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  get isDone(): boolean {
    return this.#at >= this.#end;
  }

  tag(): { readonly field: number; readonly wireType: number } {
    const tag = this.#number();
    const field = Math.floor(tag / 8);
    if (field === 0) throw damaged("a field has number 0");
    return { field, wireType: tag % 8 };
  }

  /** Reads a length-delimited field. @returns a cursor over its bytes */
  message(): Cursor {
    const length = this.#number();
    const at = this.#at;
    this.#forward(length);
    return new Cursor(this.#bytes, at, at + length);
  }

  text(): string {
    return new TextDecoder().decode(this.#bytes.subarray(this.#at, Math.min(this.#end, this.#at + 200)));
  }

  skip(wireType: number): void {
    if (wireType === VARINT) this.varint();
    else if (wireType === FIXED64) this.#forward(8);
    else if (wireType === LENGTH_DELIMITED) this.message();
    else if (wireType === FIXED32) this.#forward(4);
    else throw damaged(`wire type ${wireType}`);
  }

  /** Reads a varint of up to 64 bits, rounded beyond 53: only 0 reads as 0. */
  varint(): number {
    let value = 0;
    for (let read = 0; read < 10; read++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * 2 ** (7 * read);
      if (byte < 0x80) return value;
    }
    throw damaged("a number is too long");
  }

  /** Reads a tag or a length: 32 bits. */
  #number(): number {
    let value = 0;
    for (let read = 0; read < 5; read++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * 2 ** (7 * read);
      if (byte < 0x80) {
        if (value >= 2 ** 32) break;
        return value;
      }
    }
    throw damaged("a number is too long");
  }

  #byte(): number {
    if (this.#at >= this.#end) throw damaged("it breaks off");
    return this.#bytes[this.#at++]!;
  }
  #forward(count: number): void {
    if (count > this.#end - this.#at) throw damaged("it breaks off");
    this.#at += count;
  }
}
