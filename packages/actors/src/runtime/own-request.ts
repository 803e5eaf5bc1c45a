import type { Delivery } from "@tutti/ports/bus";
import {
  HEADER,
  type InferRequest,
  type ModelSpec,
  inferSubject,
  rowLayout,
  typicalLengths,
  variantView,
} from "@tutti/protocol";
import { type Micros, Prng } from "@tutti/units";
import { encodeRequest, fnv1a } from "@tutti/wire";
import { randomRow } from "./random-row.ts";

export const OWN_APP = "warm-up";
/** Number of that application in messages between actors. */
export const OWN_APP_NUMBER = fnv1a(OWN_APP);
/** Reply subject without a listener: the answer is made and sent like any other. */
export const NOBODY = `_INBOX.${OWN_APP}.nobody`;
/** Largest row sent as JSON, as most publishers of small inputs do; larger ones are sent in binary form. */
const JSON_BYTES_MAX = 1_024;

/**
 * A warm-up request, as it would come from a publisher. It takes the whole way, from reading the payload to sending an
 * answer.
 */
export class OwnRequest implements Delivery {
  readonly subject: string;
  readonly reply = NOBODY;
  readonly payload: Uint8Array;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(spec: ModelSpec, bucket: number, slo: Micros) {
    // Publishers ask for variants of a family, not for the family.
    const asked = spec.family === undefined ? spec : variantView(spec, 0);
    this.subject = inferSubject(asked.name, OWN_APP);
    this.payload = encodePayload(asked, bucket);
    // The header reaches this version even if it has no share of the requests under its name.
    this.#headers = { [HEADER.slo]: `${Math.round(slo)}us`, [HEADER.version]: asked.version };
  }
  header(name: string): string | undefined {
    return this.#headers[name];
  }
}

function encodePayload(spec: ModelSpec, bucket: number): Uint8Array {
  const layout = rowLayout(spec, bucket, typicalLengths(spec));
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
