import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateAddOne } from "@tutti/onnx-tools";
import { afterEach, expect, test } from "vitest";
import { desiredModel, parseFileConfig } from "./desired-model.ts";
import { parseEmulation } from "./emulation.ts";
import { readLatencyPoints } from "./latency-points.ts";
import { listRepository, passedOverText, readModelFile } from "./model-repository.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});
async function folder(files: Readonly<Record<string, Uint8Array | string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "tutti-models-"));
  folders.push(root);
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), content);
  }
  return root;
}

test("latencies are written by batch size or as a line, and kept in microseconds", () => {
  expect(readLatencyPoints({ 8: "12ms", 1: 6 }, 8, "t")).toEqual([
    { batchSize: 1, latency: 6_000 },
    { batchSize: 8, latency: 12_000 },
  ]);
  expect(readLatencyPoints({ alpha: "1.053ms", beta: "5.072ms" }, 2, "t")).toEqual([
    { batchSize: 1, latency: 6_125 },
    { batchSize: 2, latency: 7_178 },
  ]);
  expect(readLatencyPoints([{ batchSize: 1, latency: 500 }], 8, "t")).toEqual([{ batchSize: 1, latency: 500 }]);
  expect(() => readLatencyPoints({ 2: "7ms" }, 8, "t")).toThrow(/batch size 1 is missing/);
  expect(() => readLatencyPoints({ 1: "7ms", 9: "8ms" }, 8, "t")).toThrow(/from 1 to 8/);
});

test("a model without a version of its own leaves the count to the cluster", () => {
  const config = (text: string) => parseFileConfig(`name: add\nslo: 30ms\n${text}`, "config.yaml");
  expect(desiredModel(generateAddOne(), config(""))).not.toHaveProperty("version");
  expect(config("dynamic_batching: {}\npatience: 0").passedOver).toEqual(["dynamic_batching"]);
  expect(desiredModel(generateAddOne(), config('version: "7"'))).toMatchObject({ version: "7", slo: 30_000 });
});

test("a file that can't be served is refused by the model's name", () => {
  const config = parseFileConfig("{ name: add, slo: 30ms }", "config.yaml");
  expect(() => desiredModel(new Uint8Array([1, 2, 3]), config)).toThrow(/^model add: /);
});

test("latencies in a configuration take the place of measuring, one table for each bucket", () => {
  const config = parseFileConfig("{ name: add, slo: 30ms, latencies: { 1: 2ms } }", "config.yaml");
  expect(desiredModel(generateAddOne(), config).profile).toEqual([[{ batchSize: 1, latency: 2_000 }]]);
  const two = parseFileConfig("{ name: add, slo: 30ms, latencies: [{ 1: 2ms }, { 1: 3ms }] }", "config.yaml");
  expect(() => desiredModel(generateAddOne(), two)).toThrow(/2 latency tables for 1 buckets/);
});

test("a configuration that makes no sense is refused by file", () => {
  expect(() => parseFileConfig("a: [", "m/config.yaml")).toThrow(/m\/config.yaml is no YAML/);
  expect(() => parseFileConfig("- 1", "m/config.yaml")).toThrow(/m\/config.yaml: a map of keys/);
});

test("a folder in Triton's layout gives each model in its newest version, with the configuration above it", async () => {
  const add = generateAddOne();
  const root = await folder({
    "add/1/model.onnx": "old",
    "add/10/model.onnx": add,
    "add/9/model.onnx": "old",
    "add/config.yaml": "{ slo: 20ms, max_batch_size: 4 }",
  });
  const models = await listRepository(root);
  expect(models).toEqual([
    {
      ...{ name: "add", path: join(root, "add/10/model.onnx"), version: "10" },
      ...{ config: join(root, "add/config.yaml"), tag: expect.stringMatching(/^10 /) },
    },
  ]);
  const { model } = await readModelFile({ path: models[0]?.path ?? "", flags: { max_batch_size: 2 } });
  expect(model).toMatchObject({ name: "add", slo: 20_000, batchSizeMax: 2 });
});

test("Triton's config.pbtxt is read where there is no config.yaml, and its keys without a meaning here are named", async () => {
  const pbtxt = `
    name: "add"  # as the folder
    platform: "onnxruntime_onnx" max_batch_size: 4,
    input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
    output: { name: 'y', data_type: TYPE_FP32; dims: 4 }
    dynamic_batching < preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 >
    instance_group [ { kind: KIND_CPU count: 2 }, { kind: KIND_GPU } ]
    parameters { key: "slo" value: { string_value: "2" "0ms" } }
    parameters: { key: "cache" value: { string_value: "on" } }`;
  const root = await folder({
    ...{ "add/1/model.onnx": generateAddOne(), "add/config.pbtxt": pbtxt },
    ...{ "own/1/model.onnx": generateAddOne(), "own/config.pbtxt": pbtxt, "own/config.yaml": "slo: 30ms" },
    ...{ "bad/1/model.onnx": generateAddOne(), "bad/config.pbtxt": "max_batch_size: 4\ninput [ {" },
  });
  const [add, bad, own] = await listRepository(root);
  const read = (one: typeof add) => readModelFile({ ...one!, flags: {} });
  const loadable = await read(add);
  expect(loadable.model).toMatchObject({ name: "add", slo: 20_000, batchSizeMax: 4 });
  expect(passedOverText([loadable, await read(own)])).toBe(
    "Triton's keys that change nothing here: add (input, output, dynamic_batching, instance_group, parameters.cache)",
  );
  expect((await read(own)).model).toMatchObject({ slo: 30_000 });
  await expect(read(bad)).rejects.toThrow(/bad\/config.pbtxt can't be read: line 2: the name of a field is expected/);
});

test("links to folders of models are followed; other links are no models", async () => {
  const models = await folder({ "add/1/model.onnx": generateAddOne() });
  const root = await folder({ "note.txt": "" });
  await symlink(join(models, "add"), join(root, "linked"));
  await symlink(join(root, "note.txt"), join(root, "note"));
  await symlink(join(root, "nowhere"), join(root, "gone"));
  expect(await listRepository(root)).toMatchObject([{ name: "linked", path: join(root, "linked/1/model.onnx") }]);
});

test("a folder of another shape is refused with the layout that is expected", async () => {
  const root = await folder({ "mlp/model.onnx": "" });
  await expect(listRepository(root)).rejects.toThrow(
    /mlp has no numbered versions: the layout is .*mlp\/1\/model.onnx/,
  );
  const two = await folder({ "a b/1/model.onnx": "", "mlp/model.onnx": "" });
  await expect(listRepository(two)).rejects.toThrow(/a b: names have letters.*\n.*mlp has no numbered versions/);
  const one = await folder({ "mlp/1/model.onnx": "" });
  await expect(listRepository(join(one, "mlp"))).rejects.toThrow(
    `${join(one, "mlp")} is the folder of one model: give ${join(one, "mlp/1/model.onnx")}, or ${one} for all`,
  );
  await expect(listRepository(join(root, "nowhere"))).rejects.toThrow(/nowhere: there is no such file or folder/);
  await expect(readModelFile({ path: join(root, "gone.onnx"), flags: {} })).rejects.toThrow(/there is no model file/);
});

test("a given profile is a table, or holds one under latencies or profiles", async () => {
  const root = await folder({
    "add.onnx": generateAddOne(),
    "table.yaml": "{ 1: 1ms, 2: 2ms }",
    "listed.json": '{ "profiles": [[{ "batchSize": 1, "latency": 1000 }, { "batchSize": 2, "latency": 2000 }]] }',
  });
  const expected = [
    { batchSize: 1, latency: 1_000 },
    { batchSize: 2, latency: 2_000 },
  ];
  for (const file of ["table.yaml", "listed.json"]) {
    const options = { path: join(root, "add.onnx"), profile: join(root, file), flags: { slo: "30ms" } };
    expect((await readModelFile(options)).model.profile).toEqual([expected]);
  }
});

test("emulated models have the profile that was given, and no version of their own", () => {
  const yaml = "models: [{ name: resnet50, sloMs: 25, batchMax: 2, alphaMs: 1, betaMs: 5 }]\njitter: 0.05";
  const { models, jitter } = parseEmulation(yaml, "p.yaml");
  expect(jitter).toEqual({ seed: 1, spread: 0.05 });
  expect(models[0]).toMatchObject({ name: "resnet50", engine: "emulated", slo: 25_000 });
  expect(models[0]).not.toHaveProperty("version");
  expect(() => parseEmulation("models: [{ name: a }]", "p.yaml")).toThrow(/p.yaml: .*models\[0\].alphaMs: is missing/s);
});
