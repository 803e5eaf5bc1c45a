/** An answer as the Open Inference Protocol has it: JSON, and behind it the outputs that were wanted as raw bytes. */
import { jsonFromBytes } from "@tutti/wire";
import { type OutputTensor, textsOf } from "./bytes-elements.ts";

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
  /** Of the JSON, where something follows it. */
  readonly jsonBytes: number | undefined;
}

/** @param json - what `writeAnswerJson` made of the same outputs */
export function answerBody(json: Uint8Array, outputs: readonly AnswerTensor[]): AnswerBody {
  const raw = outputs.filter(({ isBinary }) => isBinary).map(({ data }) => data);
  const bytes = raw.reduce((sum, { byteLength }) => sum + byteLength, json.byteLength);
  return { chunks: [json, ...raw], bytes, jsonBytes: raw.length > 0 ? json.byteLength : undefined };
}

/** Numbers that JSON has no literal for (NaN, what a double can't hold) are texts, as requests may have them. */
export function answerText({ model, version, id, outputs }: AnswerHead): string {
  const body = {
    model_name: model,
    model_version: version,
    ...(id !== undefined && { id }),
    outputs: outputs.map(({ name, type, dims, data, isBinary }) => ({
      name,
      datatype: type,
      shape: dims,
      ...(isBinary ? { parameters: { binary_data_size: data.byteLength } } : { data: type === "BYTES" ? textsOf(data) : jsonFromBytes(type, data) }),
    })),
  };
  return JSON.stringify(body);
}

export const writeAnswerJson = (head: AnswerHead): Uint8Array => new TextEncoder().encode(answerText(head));
