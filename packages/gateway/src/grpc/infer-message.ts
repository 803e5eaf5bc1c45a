/**
 * Reads a ModelInferRequest (open-inference.proto) in the turn in which it came. Its tensors stay encoded, as views of
 * the message, until their shapes are known to fit: decoded at once, a megabyte of integers became a million strings.
 */
import { RANK_MAX, TENSORS_MAX, TuttiError } from "@tutti/protocol";
import { PARAMETERS_MAX, type Parameters } from "../oip/infer-head.ts";
import { MessageReader, VARINT } from "./message-reader.ts";
import type { Contents } from "./typed-contents.ts";

/**
 * Bytes of an inference request beside its raw_input_contents. An image of 224 × 224 in FP32 fits, and is decoded in
 * less than a millisecond.
 */
export const GRPC_TYPED_BYTES_MAX = 1_048_576;
/** Fields of a request and everything in it but typed contents: thirty inputs and outputs with 64 parameters each. */
export const GRPC_FIELDS_MAX = 16_384;

export interface SentInput {
  readonly name: string;
  readonly datatype: string;
  /** Sizes as they were sent: they may be anything. */
  readonly shape: readonly number[];
  readonly parameters: Parameters;
  readonly contents: Contents;
}
export interface SentOutput {
  readonly name: string;
  readonly parameters: Parameters;
}
export interface InferMessage {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  readonly parameters: Parameters;
  readonly inputs: readonly SentInput[];
  readonly outputs: readonly SentOutput[];
  readonly raw: readonly Uint8Array[];
  /** The rest could not be read, or is more than is taken; the id is there where it came before. */
  readonly refusal?: TuttiError;
}

/** Never throws: a message that can't be read carries its refusal. */
export function readInferMessage(bytes: Buffer): InferMessage {
  const request = {
    ...{ model: "", version: "", id: "" },
    ...{
      parameters: new SentParameters(),
      inputs: [] as SentInput[],
      outputs: [] as SentOutput[],
      raw: [] as Buffer[],
    },
  };
  const done = (refusal?: TuttiError): InferMessage => {
    const read = { ...request, parameters: request.parameters.all };
    return refusal === undefined ? read : { ...read, refusal };
  };
  try {
    readRequest(new MessageReader(bytes, { left: GRPC_FIELDS_MAX, spent: tooManyFields }), request);
  } catch (error) {
    if (error instanceof TuttiError) return done(error);
    throw error;
  }
  const typed = request.raw.reduce((left, { byteLength }) => left - byteLength, bytes.byteLength);
  if (typed <= GRPC_TYPED_BYTES_MAX) return done();
  return done(
    tooLarge(
      `${typed} bytes beside raw_input_contents, of at most ${GRPC_TYPED_BYTES_MAX}: send tensors there (GRPC_TYPED_BYTES_MAX)`,
    ),
  );
}

interface Request {
  model: string;
  version: string;
  id: string;
  readonly parameters: SentParameters;
  readonly inputs: SentInput[];
  readonly outputs: SentOutput[];
  readonly raw: Buffer[];
}

function readRequest(reader: MessageReader, request: Request): void {
  const { parameters, inputs, outputs, raw } = request;
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        request.model = reader.text();
        break;
      case 2:
        request.version = reader.text();
        break;
      case 3:
        request.id = reader.text();
        break;
      case 4:
        parameters.read(reader.message(), "the request");
        break;
      case 5:
        if (inputs.length === TENSORS_MAX) throw invalid(`at most ${TENSORS_MAX} inputs are taken (TENSORS_MAX)`);
        inputs.push(readInput(reader.message()));
        break;
      case 6:
        if (outputs.length === TENSORS_MAX) throw invalid(`at most ${TENSORS_MAX} outputs are taken (TENSORS_MAX)`);
        outputs.push(readOutput(reader.message()));
        break;
      case 7:
        raw.push(reader.part());
        break;
      default:
        reader.skip();
    }
  }
}

function readInput(reader: MessageReader): SentInput {
  const [parameters, shape, contents] = [new SentParameters(), [] as number[], [] as Buffer[]];
  let [name, datatype] = ["", ""];
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        name = reader.text();
        break;
      case 2:
        datatype = reader.text();
        break;
      case 3:
        readShape(reader, shape);
        break;
      case 4:
        parameters.read(reader.message(), `input "${name.slice(0, 80)}"`);
        break;
      case 5:
        contents.push(reader.part());
        break;
      default:
        reader.skip();
    }
  }
  return { name, datatype, shape, parameters: parameters.all, contents };
}

/** Reads sizes, packed or one by one; of too many no more than show that they are. */
function readShape(reader: MessageReader, shape: number[]): void {
  const sizes = reader.type === VARINT ? undefined : reader.message();
  if (sizes === undefined) shape.push(reader.int64());
  else while (sizes.at < sizes.end && shape.length <= RANK_MAX) shape.push(sizes.int64());
}

function readOutput(reader: MessageReader): SentOutput {
  const parameters = new SentParameters();
  let name = "";
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) parameters.read(reader.message(), `output "${name.slice(0, 80)}"`);
    else reader.skip();
  }
  return { name, parameters: parameters.all };
}

type Value = string | number | boolean;

class SentParameters {
  readonly #entries: (readonly [name: string, value: Value])[] = [];

  get all(): Parameters {
    return Object.fromEntries(this.#entries);
  }

  /** @param where - whose parameters they are. @throws {TuttiError} INVALID_INPUT */
  read(entry: MessageReader, where: string): void {
    if (this.#entries.length === PARAMETERS_MAX)
      throw invalid(`${where} has more than ${PARAMETERS_MAX} parameters (PARAMETERS_MAX)`);
    let name = "";
    let value: Value | undefined;
    while (entry.next()) {
      if (entry.field === 1) name = entry.text();
      else if (entry.field === 2) value = readParameter(entry.message());
      else entry.skip();
    }
    if (value === undefined) throw invalid(`the parameter ${name.slice(0, 80)} has no value`);
    this.#entries.push([name, value]);
  }
}

/** @returns the value that was set last; undefined: none */
function readParameter(reader: MessageReader): Value | undefined {
  let value: Value | undefined;
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        value = reader.flag();
        break;
      case 2:
        value = reader.int64();
        break;
      case 3:
        value = reader.text();
        break;
      case 4:
        value = reader.double();
        break;
      case 5:
        value = reader.uint64();
        break;
      default:
        reader.skip();
    }
  }
  return value;
}

const tooManyFields = (): TuttiError =>
  tooLarge(`more than ${GRPC_FIELDS_MAX} fields: send tensors as raw_input_contents (GRPC_FIELDS_MAX)`);
const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", `the message has ${text}`);
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
