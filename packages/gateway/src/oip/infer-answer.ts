/** An answer of the Open Inference Protocol: JSON, followed by the outputs that were wanted as raw bytes. */
import { jsonTextOf } from "@tutti/wire";
import { type OutputTensor, textsOf } from "./bytes-elements.ts";
import { type PredictForm, predictText } from "./predict.ts";

export interface AnswerTensor extends OutputTensor {
  readonly isBinary: boolean;
}
export interface AnswerHead {
  readonly model: string;
  readonly version: string;
  readonly id: string | undefined;
  readonly outputs: readonly AnswerTensor[];
  /** Undefined: that of the Open Inference Protocol. */
  readonly form?: PredictForm | undefined;
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
export function answerText(answer: AnswerHead): string {
  const { model, version, id, outputs, form } = answer;
  if (form !== undefined) return predictText(answer, form);
  const head = JSON.stringify({ model_name: model, model_version: version, ...(id !== undefined && { id }) });
  return `${head.slice(0, -1)},"outputs":[${outputs.map(outputText).join(",")}]}`;
}

function outputText(output: AnswerTensor): string {
  const { name, type, dims, data, isBinary, slice } = output;
  const described = { name, datatype: type, shape: dims };
  // Without parameters, as Triton answers: where there are some, its client reads a binary_data_size.
  if (slice !== undefined) return JSON.stringify(described);
  if (isBinary) return JSON.stringify({ ...described, parameters: { binary_data_size: data.byteLength } });
  const elements = type === "BYTES" ? JSON.stringify(textsOf(data)) : jsonTextOf(type, data);
  return `${JSON.stringify(described).slice(0, -1)},"data":${elements}}`;
}

export const writeAnswerJson = (head: AnswerHead): Uint8Array => new TextEncoder().encode(answerText(head));
