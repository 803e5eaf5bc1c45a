/**
 * Checks a message without tensors before protobufjs decodes it, in the turn in which it came. 33 MB can become
 * millions of objects, which take seconds and gigabytes. Inference requests are read without protobufjs
 * (infer-message.ts).
 *
 *   MS1. Bytes that are passed over here are raw to protobufjs too. It reads fields by their number, whatever type
 *        their tag gives: other types are refused here.
 */
import { TuttiError } from "@tutti/protocol";
import { DELIMITED, MessageReader, VARINT, unreadable } from "./message-reader.ts";

/** Bytes of a request that carries no tensors and no file: names, and the key of a region. */
export const GRPC_SHORT_BYTES_MAX = 8_192;
/** Fields of a request that loads a model, with what is in its parameters: enough for 250 of them. */
export const GRPC_LOAD_FIELDS_MAX = 1_024;

export type MessageKind = "load" | "short";

/** @returns the answer instead of decoding it; undefined: it may be decoded */
export function refusalOf(message: Buffer, kind: MessageKind): TuttiError | undefined {
  if (kind === "short")
    return message.byteLength <= GRPC_SHORT_BYTES_MAX
      ? undefined
      : tooLarge(`${message.byteLength} bytes, where ${GRPC_SHORT_BYTES_MAX} are enough (GRPC_SHORT_BYTES_MAX)`);
  try {
    checkFields(new MessageReader(message, { left: GRPC_LOAD_FIELDS_MAX, spent: tooManyFields }), LOAD);
    return undefined;
  } catch (error) {
    if (error instanceof TuttiError) return error;
    throw error;
  }
}

/** A message of open-inference.proto. */
interface Shape {
  /** Types of the tags of field 1, 2 and so on. */
  readonly types: readonly number[];
  readonly within?: ReadonlyMap<number, Shape>;
}
/** A model's file is one of the parameters of its request. */
const FILE_PARAMETER: Shape = { types: [VARINT, VARINT, DELIMITED, DELIMITED] };
const LOAD: Shape = {
  types: [DELIMITED, DELIMITED, DELIMITED],
  within: new Map([[3, { types: [DELIMITED, DELIMITED], within: new Map([[2, FILE_PARAMETER]]) }]]),
};

function checkFields(reader: MessageReader, { types, within }: Shape): void {
  while (reader.next()) {
    const type = types[reader.field - 1];
    if (type !== undefined && type !== reader.type) throw unreadable();
    const inner = within?.get(reader.field);
    if (inner === undefined) reader.skip();
    else checkFields(reader.message(), inner);
  }
}

const tooManyFields = (): TuttiError => tooLarge(`more than ${GRPC_LOAD_FIELDS_MAX} fields (GRPC_LOAD_FIELDS_MAX)`);
const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", `the message has ${text}`);
