/** An answer of the Open Inference Protocol: JSON, followed by the outputs that were wanted as raw bytes. */
import { jsonFromBytes } from "@tutti/wire";
import { type OutputTensor, textsOf } from "./bytes-elements.ts";
import type { RegionSlice } from "./given-tensors.ts";

export interface AnswerTensor extends OutputTensor {
  readonly isBinary: boolean;
}
export interface AnswerHead {
  readonly model: string;
  readonly version: string;
  readonly id: string | undefined;
  readonly outputs: readonly AnswerTensor[];
}
export interface AnswerBody {
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
  /** Length of the JSON, where raw bytes follow it. */
  readonly jsonBytes: number | undefined;
}

/** @param json - the result of `writeAnswerJson` for the same outputs */
export function answerBody(json: Uint8Array, outputs: readonly AnswerTensor[]): AnswerBody {
  const raw = outputs.filter(({ isBinary, slice }) => isBinary && slice === undefined).map(({ data }) => data);
  const bytes = raw.reduce((sum, { byteLength }) => sum + byteLength, json.byteLength);
  return { chunks: [json, ...raw], bytes, jsonBytes: raw.length > 0 ? json.byteLength : undefined };
}

/**
 * Writes the JSON. Numbers without a JSON literal (NaN, integers beyond a double) are texts, as requests may have them.
 */
export function answerText({ model, version, id, outputs }: AnswerHead): string {
  const body = {
    model_name: model,
    model_version: version,
    ...(id !== undefined && { id }),
    outputs: outputs.map((output) => ({
      name: output.name,
      datatype: output.type,
      shape: output.dims,
      ...contentOf(output),
    })),
  };
  return JSON.stringify(body);
}

function contentOf({ type, data, isBinary, slice }: AnswerTensor): object {
  if (slice !== undefined) return { parameters: sliceParameters(slice) };
  if (isBinary) return { parameters: { binary_data_size: data.byteLength } };
  return { data: type === "BYTES" ? textsOf(data) : jsonFromBytes(type, data) };
}

/** Parameters in the form that requests have. */
const sliceParameters = ({ region, offset, bytes }: RegionSlice) => ({
  shared_memory_region: region,
  shared_memory_offset: offset,
  shared_memory_byte_size: bytes,
});

export const writeAnswerJson = (head: AnswerHead): Uint8Array => new TextEncoder().encode(answerText(head));
