/**
 * `application/vnd.tutti.tensor`: tensors as raw bytes behind a short header. All little-endian.
 *
 *   u32 magic "TTN1" · u16 tensorCount · u16 flags (0)
 *   per tensor: u8 type · u8 rank · u16 nameBytes · u32 byteLength · u32 × rank dims · name (UTF-8)
 *   padding to a multiple of 8, then the data of each tensor, each padded to a multiple of 8
 *
 * In a message at a multiple of 8 bytes every tensor can be viewed as a typed array without a copy.
 */
import {
  RANK_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
  type Tensor,
  TuttiError,
  alignTo8,
  bytesOf,
  dataTypeNumber,
  dataTypeOfNumber,
  elementCount,
} from "@tutti/protocol";

const MAGIC = 0x314e_5454; // the bytes "TTN1"
const HEADER_BYTES = 8;
const ENTRY_BYTES = 8;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export const isTensorMessage = (bytes: Uint8Array): boolean =>
  bytes.byteLength >= HEADER_BYTES && bytes[0] === 0x54 && bytes[1] === 0x54 && bytes[2] === 0x4e && bytes[3] === 0x31;

/**
 * Encodes tensors with one allocation and one copy of the data.
 * @throws {TuttiError} INVALID_INPUT for tensors that no reader would accept: names, ranks, lengths
 */
export function encodeTensors(tensors: readonly Tensor[]): Uint8Array {
  if (tensors.length > TENSORS_MAX)
    throw invalid(`${tensors.length} tensors: at most ${TENSORS_MAX} fit in a message (TENSORS_MAX)`);
  const names = tensors.map(({ name }) => bytesOfName(name));
  let headerBytes = HEADER_BYTES;
  let dataBytes = 0;
  tensors.forEach((tensor, i) => {
    headerBytes += ENTRY_BYTES + 4 * tensor.dims.length + names[i]!.byteLength;
    checkTensor(tensor, names[i]!.byteLength);
    dataBytes += alignTo8(tensor.data.byteLength);
  });
  const message = new Uint8Array(alignTo8(headerBytes) + dataBytes);
  const view = new DataView(message.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint16(4, tensors.length, true);
  let at = HEADER_BYTES;
  let data = alignTo8(headerBytes);
  tensors.forEach((tensor, i) => {
    const name = names[i]!;
    view.setUint8(at, dataTypeNumber(tensor.type));
    view.setUint8(at + 1, tensor.dims.length);
    view.setUint16(at + 2, name.byteLength, true);
    view.setUint32(at + 4, tensor.data.byteLength, true);
    at += ENTRY_BYTES;
    for (const dim of tensor.dims) {
      view.setUint32(at, dim, true);
      at += 4;
    }
    message.set(name, at);
    at += name.byteLength;
    message.set(tensor.data, data);
    data += alignTo8(tensor.data.byteLength);
  });
  return message;
}

function checkTensor({ name, type, dims, data }: Tensor, nameBytes: number): void {
  if (nameBytes === 0 || nameBytes > TENSOR_NAME_BYTES_MAX)
    throw invalid(`a tensor's name has 1 to ${TENSOR_NAME_BYTES_MAX} bytes (TENSOR_NAME_BYTES_MAX), not ${nameBytes}`);
  if (dims.length > RANK_MAX) throw invalid(`tensor "${name}" has ${dims.length} axes: at most ${RANK_MAX} (RANK_MAX)`);
  for (const dim of dims) if (dim >>> 0 !== dim) throw invalid(`tensor "${name}": ${dim} is no size of an axis`);
  const expected = elementCount(dims) * bytesOf(type);
  if (data.byteLength !== expected)
    throw invalid(
      `tensor "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes of data, got ${data.byteLength}`,
    );
}

/**
 * @returns tensors whose data are views of `message`, at multiples of 8 bytes from its start
 * @throws {TuttiError} INVALID_INPUT naming what is wrong
 */
export function decodeTensors(message: Uint8Array): Tensor[] {
  if (!isTensorMessage(message)) throw invalid("the payload does not start with TTN1, so it is no tensor message");
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const count = view.getUint16(4, true);
  const flags = view.getUint16(6, true);
  if (flags !== 0) throw invalid(`the tensor message has flags ${flags}, which this version does not know`);
  if (count > TENSORS_MAX) throw invalid(`${count} tensors: at most ${TENSORS_MAX} fit in a message (TENSORS_MAX)`);
  const headers: { name: string; type: Tensor["type"]; dims: number[]; byteLength: number }[] = [];
  let at = HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    if (at + ENTRY_BYTES > message.byteLength)
      throw invalid(`the tensor message ends within the header of tensor ${i}`);
    const type = dataTypeOfNumber(view.getUint8(at));
    const rank = view.getUint8(at + 1);
    const nameBytes = view.getUint16(at + 2, true);
    const byteLength = view.getUint32(at + 4, true);
    if (type === undefined) throw invalid(`tensor ${i} has the unknown data type ${view.getUint8(at)}`);
    if (rank > RANK_MAX) throw invalid(`tensor ${i} has ${rank} axes: at most ${RANK_MAX} (RANK_MAX)`);
    if (nameBytes === 0 || nameBytes > TENSOR_NAME_BYTES_MAX)
      throw invalid(
        `the name of tensor ${i} has ${nameBytes} bytes: 1 to ${TENSOR_NAME_BYTES_MAX} (TENSOR_NAME_BYTES_MAX)`,
      );
    at += ENTRY_BYTES;
    const end = at + 4 * rank + nameBytes;
    if (end > message.byteLength) throw invalid(`the tensor message ends within the header of tensor ${i}`);
    const dims: number[] = [];
    for (let k = 0; k < rank; k++) dims.push(view.getUint32(at + 4 * k, true));
    const name = readName(message.subarray(at + 4 * rank, end), i);
    const expected = elementCount(dims) * bytesOf(type);
    if (byteLength !== expected)
      throw invalid(`tensor "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes of data, got ${byteLength}`);
    headers.push({ name, type, dims, byteLength });
    at = end;
  }
  return cutData(message, alignTo8(at), headers);
}

function cutData(
  message: Uint8Array,
  start: number,
  headers: readonly (Omit<Tensor, "data"> & { byteLength: number })[],
) {
  let at = start;
  let end = start;
  const tensors: Tensor[] = [];
  for (const { name, type, dims, byteLength } of headers) {
    end = at + byteLength;
    if (end > message.byteLength)
      throw invalid(`the data of tensor "${name}" ends ${end - message.byteLength} bytes after the message does`);
    tensors.push({ name, type, dims, data: message.subarray(at, end) });
    at += alignTo8(byteLength);
  }
  // The last tensor's padding may be missing; any other bytes behind the data are an error.
  if (message.byteLength !== end && message.byteLength !== alignTo8(end))
    throw invalid(`${message.byteLength - end} bytes are left over behind the last tensor`);
  return tensors;
}

const namesKnown = new Map<string, Uint8Array>();
const NAMES_KEPT = 1_024;

/** Cached bytes of a name: the same few names recur. */
function bytesOfName(name: string): Uint8Array {
  let bytes = namesKnown.get(name);
  if (bytes === undefined) {
    bytes = encoder.encode(name);
    if (namesKnown.size >= NAMES_KEPT || bytes.byteLength > TENSOR_NAME_BYTES_MAX) return bytes;
    namesKnown.set(name, bytes);
  }
  return bytes;
}

/** Names are nearly always short ASCII, for which a loop takes a third of a TextDecoder's time. */
function readName(bytes: Uint8Array, i: number): string {
  if (bytes.byteLength <= 24) {
    let name = "";
    let at = 0;
    while (at < bytes.byteLength && bytes[at]! < 0x80) name += String.fromCharCode(bytes[at++]!);
    if (at === bytes.byteLength) return name;
  }
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new TuttiError("TUTTI_INVALID_INPUT", `the name of tensor ${i} is not UTF-8`, { cause });
  }
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
