import { InMemoryStore } from "@tutti/ports/store";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { absentModelError, askedSpec } from "./families.ts";
import { type DesiredModel, ModelRegistry } from "./model-registry.ts";

const model = (name: string): DesiredModel => ({
  ...{
    name,
    engine: "onnx",
    slo: micros(30_000),
    batchSizeMax: 8,
    patience: 1,
    constants: [],
    axes: {},
    buckets: [{}],
  },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 4] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 4] }],
});

async function withVersions(): Promise<ModelRegistry> {
  const registry = new ModelRegistry(new InMemoryStore());
  await registry.publishVersion({ ...model("mlp"), version: "1" });
  await registry.publishVersion({ ...model("mlp"), version: "2" });
  return registry;
}

test("a version can be asked for by its name, also the one that is kept under the model's own", async () => {
  const registry = await withVersions();
  const found = async (name: string): Promise<unknown> => {
    const spec = await askedSpec(registry, name);
    return spec === undefined ? undefined : [spec.name, spec.version];
  };
  expect(await found("mlp")).toEqual(["mlp", "1"]);
  expect(await found("mlp/1")).toEqual(["mlp", "1"]);
  expect(await found("mlp/2")).toEqual(["mlp/2", "2"]);
  for (const absent of ["mlp/3", "mlp/", "bert", "bert/1", "a b", ""]) expect(await found(absent)).toBe(undefined);
});

test("a name that no model has is told a similar one that can be asked for", async () => {
  const registry = await withVersions();
  const advice = async (name: string): Promise<string> => (await absentModelError(registry, name)).message;
  expect(await advice("mpl")).toBe('no model named "mpl" is loaded: did you mean "mlp"?');
  expect(await advice("mlp/3")).toContain('did you mean "mlp/1"?');
  expect(await advice("bert")).toContain('"tutti models" lists what is');
  await expect(registry.release("mpl")).rejects.toMatchObject({
    code: "TUTTI_NOT_FOUND",
    message: await advice("mpl"),
  });
});
