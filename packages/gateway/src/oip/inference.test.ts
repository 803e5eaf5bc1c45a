import type { InferOptions, TensorAnswer } from "@tutti/client";
import type { ModelSpec } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { twice } from "../testing/gateway-scene.ts";
import type { AppClients } from "./app-clients.ts";
import { Inference } from "./inference.ts";
import { readTerms } from "./request-terms.ts";

const scaleToZero = { idle: seconds(600), coldStart: seconds(30) };
const [warm, parked] = [twice, { ...twice, scaleToZero }].map((spec): ModelSpec => ({
  ...spec,
  number: 1,
  version: "1",
}));
const pipeline = {
  ...{ name: "both", version: "1", slo: millis(400), inputs: [], outputs: [] },
  stages: ["warm", "parked"].map((model) => ({ name: model, model })),
};

/** Options with which an ingress of another process is asked for a model or pipeline, where these models exist. */
async function askedWith(model: string, models: Readonly<Record<string, ModelSpec>>): Promise<InferOptions> {
  let asked: InferOptions = {};
  const inferTensors = (_: string, __: unknown, options: InferOptions): Promise<TensorAnswer> => {
    asked = options;
    return Promise.resolve({ outputs: [] } as unknown as TensorAnswer);
  };
  const inference = new Inference({
    modelOf: (name) => models[name] && { spec: models[name], status: undefined, lease: undefined },
    pipelines: () => new Map([[pipeline.name, pipeline]]),
    clients: { of: () => ({ inferTensors }) } as unknown as AppClients,
    note: () => undefined,
    tracer: noTelemetry.tracer,
  });
  const inputs = [{ name: "x", type: "FP32", dims: [1, 4], data: new Uint8Array(16) }] as const;
  const terms = readTerms(() => undefined, {});
  const { signal } = new AbortController();
  await inference.infer({ model, version: undefined, inputs, wanted: undefined, terms, signal });
  return asked;
}

test("an ingress of another process is given the cold start of a model that may be parked, and none for any other", async () => {
  expect(await askedWith("twice", { twice: warm! })).toMatchObject({ slo: "2000000us" });
  expect((await askedWith("twice", { twice: warm! })).coldStart).toBe(undefined);
  expect(await askedWith("twice", { twice: parked! })).toMatchObject({ slo: "2000000us", coldStart: "30000000us" });
});

test("a pipeline has the longest cold start of its stages' models", async () => {
  expect((await askedWith("both", { warm: warm!, parked: parked! })).coldStart).toBe("30000000us");
  expect((await askedWith("both", { warm: warm!, parked: warm! })).coldStart).toBe(undefined);
});
