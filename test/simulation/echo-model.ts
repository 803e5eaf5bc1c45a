import type { Delivery } from "@tutti/ports/bus";
import { CONTENT, HEADER, type ModelSpec } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import { decodeTensors, encodeTensors } from "@tutti/wire";

/**
 * A model whose output echoes its one float input, and whose profile is given. A test sees which request an output
 * belongs to.
 */
export function echoModel(options: {
  readonly name: string;
  readonly number: number;
  readonly slo: Micros;
  readonly batchSizeMax: number;
  readonly latency: (batchSize: number) => Micros;
}): ModelSpec {
  const { name, number, slo, batchSizeMax, latency } = options;
  return {
    name,
    number,
    version: "1",
    engine: "emulated",
    slo,
    batchSizeMax,
    patience: 1,
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
    constants: [],
    axes: {},
    buckets: [{}],
    profile: [Array.from({ length: batchSizeMax }, (_, i) => ({ batchSize: i + 1, latency: latency(i + 1) }))],
  };
}

/** A request in binary form. */
export function echoRequest(value: number, slo: Micros): { payload: Uint8Array; headers: Record<string, string> } {
  const data = new Uint8Array(new Float32Array([value]).buffer);
  return {
    payload: encodeTensors([{ name: "x", type: "FP32", dims: [1, 1], data }]),
    headers: { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${slo}us` },
  };
}

export interface EchoAnswer {
  /** "ok", an error's code, or "no-responders" when no ingress listens. */
  readonly status: string;
  /** The echoed value; NaN unless ok. */
  readonly value: number;
  readonly text: string;
  /** The name of the output where it isn't `y`: that of a family's variant. */
  readonly output?: string;
  readonly retryAfterMs?: number;
  /** The version that answered, where its publisher can't know it. */
  readonly version?: string;
}

export function readEcho(delivery: Delivery): EchoAnswer {
  if (delivery.header("Status") === "503") return { status: "no-responders", value: NaN, text: "" };
  if (delivery.header(HEADER.errorCode) !== undefined) {
    const body = JSON.parse(Buffer.from(delivery.payload).toString()) as {
      code: string;
      error: string;
      retryAfterMs?: number;
    };
    const { code, error, retryAfterMs } = body;
    return { status: code, value: NaN, text: error, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }
  const [tensor] = decodeTensors(delivery.payload);
  const version = delivery.header(HEADER.version);
  const said = version === undefined ? {} : { version };
  const output = tensor === undefined || tensor.name === "y" ? {} : { output: tensor.name };
  return { status: "ok", value: tensor === undefined ? NaN : floatOf(tensor.data), text: "", ...output, ...said };
}

export const floatOf = (bytes: Uint8Array): number => new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
