/** The same request in the forms that systems read. */
export interface RequestParts {
  readonly path: string;
  readonly input: string;
  readonly row: readonly number[];
  readonly sloMs: number;
}

/** @returns head and body, ready to be written */
export function jsonRequest(parts: RequestParts): Buffer {
  const { input, row } = parts;
  const body = JSON.stringify({ inputs: [{ name: input, datatype: "FP32", shape: [1, row.length], data: row }] });
  return Buffer.concat([headOf(parts, ["Content-Type: application/json"], body.length), Buffer.from(body)]);
}

/** The Open Inference Protocol's extension for binary tensors, both ways. */
export function binaryRequest(parts: RequestParts): Buffer {
  const { input, row } = parts;
  const raw = new Uint8Array(Float32Array.from(row).buffer);
  const json = JSON.stringify({
    inputs: [
      { name: input, datatype: "FP32", shape: [1, row.length], parameters: { binary_data_size: raw.byteLength } },
    ],
    parameters: { binary_data_output: true },
  });
  const headers = ["Content-Type: application/octet-stream", `Inference-Header-Content-Length: ${json.length}`];
  return Buffer.concat([headOf(parts, headers, json.length + raw.byteLength), Buffer.from(json), raw]);
}

function headOf({ path, sloMs }: RequestParts, headers: readonly string[], bodyBytes: number): Buffer {
  const lines = [
    `POST ${path} HTTP/1.1`,
    "Host: 127.0.0.1",
    ...headers,
    `tutti-slo: ${sloMs}ms`,
    "tutti-app: bench",
    `Content-Length: ${bodyBytes}`,
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`);
}
