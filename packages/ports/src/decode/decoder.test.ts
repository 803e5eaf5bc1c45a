import type { ModelSpec } from "@tutti/protocol";
import { encodeTensors } from "@tutti/wire";
import { expect, test } from "vitest";
import { decodeNow } from "./decoder.ts";

const spec: ModelSpec = {
  ...{ name: "m", number: 1, version: "1", engine: "onnx", slo: 50_000 as ModelSpec["slo"], batchSizeMax: 8 },
  ...{ patience: 1, inputs: [{ name: "x", type: "UINT8", dims: ["batch", 800] }], outputs: [], constants: [] },
  ...{ axes: {}, buckets: [{}] },
};

test("a row is a view of a payload that was given away, and a copy of a borrowed one", () => {
  const data = new Uint8Array(800).fill(7);
  const payload = encodeTensors([{ name: "x", type: "UINT8", dims: [1, 800], data }]);
  const borrowed = decodeNow({ form: "binary", payload, spec }).row;
  const owned = decodeNow({ form: "binary", payload, isOwned: true, spec }).row;
  expect(owned.buffer).toBe(payload.buffer);
  payload.fill(0);
  expect(borrowed).toEqual(data);
});
