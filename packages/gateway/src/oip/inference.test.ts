import type { InferOptions, TensorAnswer } from "@tutti/client";
import type { ModelSpec } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { twice } from "../testing/gateway-scene.ts";
import type { AppClients } from "./app-clients.ts";
import { Inference } from "./inference.ts";
import { readTerms } from "./request-terms.ts";

test("an ingress of another process is given the cold start of a model that may be parked, and none for any other", async () => {
  const asked: InferOptions[] = [];
  const inferTensors = (_: string, __: unknown, options: InferOptions): Promise<TensorAnswer> => {
    asked.push(options);
    return Promise.resolve({ outputs: [] } as unknown as TensorAnswer);
  };
  const scaleToZero = { idle: seconds(600), coldStart: seconds(30) };
  const specs = [twice, { ...twice, scaleToZero }].map((spec): ModelSpec => ({ ...spec, number: 1, version: "1" }));
  for (const spec of specs) {
    const inference = new Inference({
      modelOf: () => ({ spec, status: undefined, lease: undefined }),
      clients: { of: () => ({ inferTensors }) } as unknown as AppClients,
      note: () => undefined,
      tracer: noTelemetry.tracer,
    });
    const inputs = [{ name: "x", type: "FP32", dims: [1, 4], data: new Uint8Array(16) }] as const;
    const terms = readTerms(() => undefined, {});
    const { signal } = new AbortController();
    await inference.infer({ model: "twice", version: undefined, inputs, wanted: undefined, terms, signal });
  }
  expect(asked.map(({ slo, coldStart }) => [slo, coldStart])).toEqual([
    ["2000000us", undefined],
    ["2000000us", "30000000us"],
  ]);
});
