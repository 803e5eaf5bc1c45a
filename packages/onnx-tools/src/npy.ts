import { DATA_TYPES, type DataType, RANK_MAX, type Tensor, TuttiError, bytesOf, elementCount } from "@tutti/protocol";

/** NumPy's names for element types, without the byte order. */
const TYPES: ReadonlyMap<string, DataType> = new Map([
  ["b1", "BOOL"],
  ["u1", "UINT8"],
  ["u2", "UINT16"],
  ["u4", "UINT32"],
  ["u8", "UINT64"],
  ["i1", "INT8"],
  ["i2", "INT16"],
  ["i4", "INT32"],
  ["i8", "INT64"],
  ["f2", "FP16"],
  ["f4", "FP32"],
  ["f8", "FP64"],
]);
/** Every element type has one. */
const NAMES: ReadonlyMap<DataType, string> = new Map([...TYPES].map(([name, type]) => [type, name]));
const MAGIC = "\u0093NUMPY";
/** Magic, version and the header's length, in version 1. */
const PREFIX_BYTES = 10;
const HEADER_BYTES_MAX = 65_536;

export interface NpyOptions {
  /** The input that the array is for. */
  readonly name: string;
  /** The type that the input has: f64, NumPy's own default, is rounded to FP32 for it; other types must be equal. */
  readonly type?: DataType;
}

/**
 * Reads an array saved by `numpy.save`: versions 1 to 3, little-endian, C order.
 *
 * @throws {TuttiError} INVALID_INPUT with the NumPy call that would give what can be read
 */
export function readNpy(bytes: Uint8Array, { name, type }: NpyOptions): Tensor {
  const { descr, fortran, dims, start } = parseHeader(bytes);
  const found = /^([<>|=])([buif]\d)$/.exec(descr);
  const foundType = found === null ? undefined : TYPES.get(found[2]!);
  if (foundType === undefined)
    return refuse(`its elements are '${descr}'; read are ${Object.keys(DATA_TYPES).join(", ")}`);
  if (found?.[1] === ">")
    return refuse("its bytes are big-endian: numpy.save(path, a.astype(a.dtype.newbyteorder('<')))");
  if (fortran && dims.length > 1) return refuse("it is in Fortran order: numpy.save(path, numpy.ascontiguousarray(a))");
  const length = elementCount(dims) * bytesOf(foundType);
  if (!Number.isSafeInteger(length) || bytes.byteLength - start !== length) {
    return refuse(
      `its shape (${dims.join(", ")}) needs ${length} bytes and ${bytes.byteLength - start} follow: it breaks off or is damaged`,
    );
  }
  const data = new Uint8Array(bytes.subarray(start)); // a copy, so that it is aligned
  if (type === undefined || type === foundType) return { name, type: foundType, dims, data };
  if (foundType === "FP64" && type === "FP32") {
    const rounded = Float32Array.from(new Float64Array(data.buffer));
    return { name, type, dims, data: new Uint8Array(rounded.buffer) };
  }
  return refuse(`it holds ${foundType}, and '${name}' takes ${type}: convert it with a.astype(…)`);
}

/** The header's end is at a multiple of this, as `numpy.save` has it: arrays can be mapped into memory. */
const ALIGNMENT = 64;

/** Writes an array as `numpy.save` does: version 1, little-endian, C order. */
export function writeNpy({ type, dims, data }: Omit<Tensor, "name">): Uint8Array {
  const name = NAMES.get(type)!;
  const order = bytesOf(type) === 1 ? "|" : "<";
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(", ");
  const header = `{'descr': '${order}${name}', 'fortran_order': False, 'shape': (${shape}), }`;
  const start = Math.ceil((PREFIX_BYTES + header.length + 1) / ALIGNMENT) * ALIGNMENT;
  const bytes = new Uint8Array(start + data.byteLength);
  const length = start - PREFIX_BYTES;
  bytes.set([...MAGIC].map((one) => one.charCodeAt(0)));
  bytes.set([1, 0, length & 255, length >> 8], MAGIC.length);
  bytes.set(new TextEncoder().encode(`${header.padEnd(length - 1)}\n`), PREFIX_BYTES);
  bytes.set(data, start);
  return bytes;
}

interface Header {
  readonly descr: string;
  readonly fortran: boolean;
  readonly dims: number[];
  /** Where the elements begin. */
  readonly start: number;
}

function parseHeader(bytes: Uint8Array): Header {
  if (bytes.byteLength < 12 || String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC)
    return refuse("this is no .npy file");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = (bytes[6] as number) >= 2;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const from = wide ? 12 : 10;
  if (length > HEADER_BYTES_MAX || from + length > bytes.byteLength) return refuse("its header breaks off");
  const header = new TextDecoder().decode(bytes.subarray(from, from + length));
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(header)?.[1];
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(header)?.[1];
  const shape = /'shape'\s*:\s*\(([\d,\s]*)\)/.exec(header)?.[1];
  if (descr === undefined || order === undefined || shape === undefined) return refuse("its header is not an array's");
  const dims = shape
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(Number);
  if (dims.length > RANK_MAX) return refuse(`it has ${dims.length} axes, at most ${RANK_MAX} are taken`);
  return { descr, fortran: order === "True", dims, start: from + length };
}

function refuse(what: string): never {
  throw new TuttiError("TUTTI_INVALID_INPUT", `the .npy file can't be read: ${what}`, { retryable: false });
}
