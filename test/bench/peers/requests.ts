/** The same request in the forms that systems read. */
import { encodeTensors } from "@tutti/wire";
import type { AnswerForm, LoadKind } from "./load-plan.ts";
import type { ServedModel } from "./served-models.ts";

/**
 * Forms of a request. oip: the Open Inference Protocol, in JSON or with its binary tensors; raw: only the tensor's
 * bytes; rows: JSON rows; tensors: NATS.
 */
export type RequestForm = "oip-json" | "oip-binary" | "raw" | "rows" | "tensors";

export interface Asked {
  readonly model: ServedModel;
  readonly rows: readonly (readonly number[])[];
  readonly expected: readonly (readonly number[])[];
}

const APP = "bench";
/**
 * Time by which a request's SLO is reduced. The SLO counts from when a request was due, so a client reports a shorter
 * one: less its own time, the way's, and the lag of a busy generator.
 */
const KEPT_BACK_MS = 2;
const ANSWER_FORMS: Readonly<Record<RequestForm, AnswerForm>> = {
  "oip-json": "json",
  "oip-binary": "oip-binary",
  raw: "raw",
  rows: "json",
  tensors: "tensors",
};

/** @param path - where a system takes requests for a model */
export function loadKind({ model, rows, expected }: Asked, form: RequestForm, path: string): LoadKind {
  const requests = rows.map((row) => requestOf(model, row, form, path));
  const kind = { name: model.name, requests: requests.map((one) => one.toString("base64")), expected };
  if (form !== "tensors") return { ...kind, form: ANSWER_FORMS[form] };
  return {
    ...kind,
    form: "tensors",
    subject: `infer.${model.name}.${APP}`,
    headerBytes: natsHeaders(model).byteLength,
  };
}

/** Head and body, or headers and payload, ready to be written. */
export function requestOf(model: ServedModel, row: readonly number[], form: RequestForm, path: string): Buffer {
  const { name, datatype, shape } = model.input;
  const input = { name, datatype, shape: [1, ...shape] };
  switch (form) {
    case "oip-json": {
      const body = Buffer.from(JSON.stringify({ inputs: [{ ...input, data: row }] }));
      return withHead(model, path, ["Content-Type: application/json"], body);
    }
    case "oip-binary": {
      const raw = rawOf(model, row);
      const json = JSON.stringify({
        inputs: [{ ...input, parameters: { binary_data_size: raw.byteLength } }],
        outputs: [{ name: model.output, parameters: { binary_data: true } }],
      });
      const headers = ["Content-Type: application/octet-stream", `Inference-Header-Content-Length: ${json.length}`];
      return withHead(model, path, headers, Buffer.concat([Buffer.from(json), raw]));
    }
    case "raw":
      return withHead(model, path, ["Content-Type: application/octet-stream"], rawOf(model, row));
    case "rows": {
      const body = Buffer.from(JSON.stringify({ rows: [nested(row, shape)] }));
      return withHead(model, path, ["Content-Type: application/json"], body);
    }
    case "tensors": {
      const data = new Uint8Array(rawOf(model, row));
      return Buffer.concat([natsHeaders(model), encodeTensors([{ name, type: datatype, dims: input.shape, data }])]);
    }
  }
}

function natsHeaders({ sloMs }: ServedModel): Buffer {
  return Buffer.from(
    `NATS/1.0\r\nContent-Type: application/vnd.tutti.tensor\r\nTutti-Slo: ${sloMs - KEPT_BACK_MS}ms\r\n\r\n`,
  );
}

function withHead({ sloMs }: ServedModel, path: string, headers: readonly string[], body: Buffer): Buffer {
  const lines = [
    `POST ${path} HTTP/1.1`,
    "Host: 127.0.0.1",
    ...headers,
    `tutti-slo: ${sloMs - KEPT_BACK_MS}ms`,
    `tutti-app: ${APP}`,
    `Content-Length: ${body.byteLength}`,
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body]);
}

function rawOf({ input }: ServedModel, row: readonly number[]): Buffer {
  const array = input.datatype === "INT64" ? BigInt64Array.from(row, BigInt) : Float32Array.from(row);
  return Buffer.from(array.buffer);
}

function nested(row: readonly number[], shape: readonly number[]): unknown {
  const [first = 1, ...rest] = shape;
  if (rest.length === 0) return row;
  const size = row.length / first;
  return Array.from({ length: first }, (_, i) => nested(row.slice(i * size, (i + 1) * size), rest));
}
