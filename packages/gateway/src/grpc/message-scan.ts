/**
 * Checks a message before protobufjs decodes it, in the turn in which it came. 33 MB can become millions of objects,
 * which take seconds and gigabytes.
 *
 *   MS1. Bytes that are skipped here as raw are raw to protobufjs too. It reads fields by their number, whatever type
 *        their tag gives, and skips ten bytes for a varint that is too long: both are refused here.
 */
import { TuttiError } from "@tutti/protocol";

/**
 * Bytes of an inference request beside its raw_input_contents. An image of 224 × 224 in FP32 fits, and is decoded in 20
 * ms.
 */
export const GRPC_TYPED_BYTES_MAX = 1_048_576;
/** Bytes of a request that carries no tensors and no file. */
const GRPC_SHORT_BYTES_MAX = 65_536;
/** Fields of a request, and of its inputs and outputs: enough for 64 of each with 64 parameters each. */
export const GRPC_FIELDS_MAX = 16_384;

export type MessageKind = "infer" | "load" | "short";

/** @returns the answer instead of decoding it; undefined: it may be decoded */
export function refusalOf(message: Uint8Array, kind: MessageKind): TuttiError | undefined {
  if (kind === "short")
    return message.byteLength <= GRPC_SHORT_BYTES_MAX
      ? undefined
      : tooLarge(`${message.byteLength} bytes, where ${GRPC_SHORT_BYTES_MAX} are enough (GRPC_SHORT_BYTES_MAX)`);
  const scan = new Scan(message);
  const fault = scan.fields(message.byteLength, kind === "infer" ? REQUEST : LOAD);
  if (fault !== undefined) return fault;
  const typed = message.byteLength - scan.rawBytes;
  if (kind === "load" || typed <= GRPC_TYPED_BYTES_MAX) return undefined;
  return tooLarge(
    `${typed} bytes beside raw_input_contents, of at most ${GRPC_TYPED_BYTES_MAX}: send tensors there (GRPC_TYPED_BYTES_MAX)`,
  );
}

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

/** A message of open-inference.proto. */
interface Shape {
  /** Allowed tag types of field 1, 2 and so on. */
  readonly types: readonly (readonly number[])[];
  readonly raw?: number;
  readonly within?: ReadonlyMap<number, Shape>;
}
const PARTS = [DELIMITED];
const INPUT: Shape = { types: [PARTS, PARTS, [VARINT, DELIMITED], PARTS, PARTS] };
const OUTPUT: Shape = { types: [PARTS, PARTS] };
const REQUEST: Shape = {
  types: Array<number[]>(7).fill(PARTS),
  raw: 7,
  within: new Map([
    [5, INPUT],
    [6, OUTPUT],
  ]),
};
/** A model's file is one of the parameters of its request. */
const FILE_PARAMETER: Shape = { types: [[VARINT], [VARINT], PARTS, PARTS] };
const LOAD: Shape = {
  types: [PARTS, PARTS, PARTS],
  within: new Map([[3, { types: [PARTS, PARTS], within: new Map([[2, FILE_PARAMETER]]) }]]),
};

class Scan {
  readonly #bytes: Uint8Array;
  rawBytes = 0;
  #at = 0;
  #fields = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  fields(end: number, shape: Shape): TuttiError | undefined {
    while (this.#at < end) {
      if (++this.#fields > GRPC_FIELDS_MAX)
        return tooLarge(`more than ${GRPC_FIELDS_MAX} fields: send tensors as raw_input_contents (GRPC_FIELDS_MAX)`);
      const tag = this.#varint();
      if (tag === undefined) return unreadable();
      const [field, type] = [tag >>> 3, tag & 7];
      if (shape.types[field - 1]?.includes(type) === false) return unreadable();
      if (type === VARINT) this.#skipVarint();
      else if (type === FIXED64) this.#at += 8;
      else if (type === FIXED32) this.#at += 4;
      else if (type !== DELIMITED)
        return unreadable(); // groups, which are obsolete since proto2
      else {
        const length = this.#varint();
        if (length === undefined || this.#at + length > end) return unreadable();
        const next = this.#at + length;
        if (field === shape.raw) this.rawBytes += length;
        const inner = shape.within?.get(field);
        const fault = inner === undefined ? undefined : this.fields(next, inner);
        if (fault !== undefined) return fault;
        this.#at = next;
      }
    }
    return this.#at === end ? undefined : unreadable();
  }

  /** Reads a varint of 32 bits; undefined where it is longer, or the bytes end. */
  #varint(): number | undefined {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) return undefined;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value < 2 ** 32 ? value : undefined;
    }
    return undefined;
  }

  #skipVarint(): void {
    while ((this.#bytes[this.#at++] ?? 0) >= 0x80);
  }
}

const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", `the message has ${text}`);
const unreadable = (): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", "the message is no request of this service");
