import type { Delivery } from "@tutti/bus";
import { HEADER, type InferRequest, type ModelSpec, inferSubject, rowLayout } from "@tutti/protocol";
import { type Micros, Prng } from "@tutti/units";
import { encodeRequest } from "@tutti/wire";
import { randomRow } from "../random-row.ts";

export const OWN_APP = "warm-up";
/** Where nobody listens: the answer is made and sent as any other. */
export const NOBODY = `_INBOX.${OWN_APP}.nobody`;
/** As JSON, which most publishers of small inputs send; larger ones come in binary form. */
const JSON_BYTES_MAX = 1_024;

/** A request that nobody asked for, as it would come from a publisher: it takes the whole way, from reading the payload to sending an answer. */
export class OwnRequest implements Delivery {
  readonly subject: string;
  readonly reply = NOBODY;
  readonly payload: Uint8Array;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(spec: ModelSpec, bucket: number, slo: Micros) {
    this.subject = inferSubject(spec.name, OWN_APP);
    this.payload = encodePayload(spec, bucket);
    this.#headers = { [HEADER.slo]: `${Math.round(slo)}us` };
  }
  header(name: string): string | undefined {
    return this.#headers[name];
  }
}

function encodePayload(spec: ModelSpec, bucket: number): Uint8Array {
  const layout = rowLayout(spec, bucket);
  const row = randomRow(spec, bucket, new Prng(bucket + 1));
  const request: InferRequest = {
    inputs: spec.inputs.map((input, i) => {
      const { offset, byteLength, dims } = layout.inputs[i]!;
      const data = row.subarray(offset, offset + byteLength);
      return { name: input.name, type: input.type, dims, data };
    }),
  };
  return encodeRequest(row.byteLength <= JSON_BYTES_MAX ? "json" : "binary", request);
}
