import {
  BUCKET,
  type ModelSpec,
  type ModelStatus,
  PLACEMENT_KEY,
  UNLOADED_MODELS_MAX,
  leaseKeys,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { micros } from "@tutti/units";
import { toJson, unpack } from "@tutti/wire";
import { expect, test } from "vitest";
import { type DesiredModel, ModelRegistry } from "./model-registry.ts";
import { getEntry, listEntries, putEntry } from "./store-calls.ts";

const model = (name: string, slo = 30_000): DesiredModel => ({
  name,
  engine: "onnx",
  slo: micros(slo),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 4] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 4] }],
  constants: [],
  axes: {},
  buckets: [{}],
});
const BYTES = Uint8Array.of(1, 2, 3);
const statusOf = (spec: ModelSpec, state: ModelStatus["state"], reason = ""): ModelStatus => ({
  name: spec.name,
  number: spec.number,
  version: spec.version,
  state,
  reason,
  profiles: [],
  means: [],
  executorTypes: [],
});
const tell = (store: InMemoryStore, status: ModelStatus): Promise<number> =>
  putEntry(store, BUCKET.profiles, status.name, toJson(status));

test("a model gets a number, version 1, and its file under its sha256", async () => {
  const store = new InMemoryStore();
  const spec = await new ModelRegistry(store).publish(model("mlp"), { model: BYTES });
  expect(spec).toMatchObject({ version: "1", file: { bytes: 3, object: `sha256-${spec.file!.sha256}` } });
  expect(spec.number).toBeGreaterThan(0);
  const stored = await new Promise((resolve) => store.files.get(spec.file!.object, resolve));
  expect(stored).toEqual({ bytes: BYTES });
  expect(await new ModelRegistry(store).list()).toEqual([{ spec, status: undefined }]);
});

test("a name that no model can have is no model's, and the store, whose keys can't be so, isn't asked", async () => {
  const store = new InMemoryStore();
  store.get = (_bucket, key, done) => done({ failure: `invalid key: ${key}` });
  for (const name of ["a model", "größe", "", "mlp.onnx"])
    expect(await new ModelRegistry(store).get(name)).toBe(undefined);
});

test("the same model again changes nothing; a changed one has a new number and the next version", async () => {
  const registry = new ModelRegistry(new InMemoryStore());
  const first = await registry.publish(model("mlp"), { model: BYTES });
  expect(await registry.publish(model("mlp"), { model: BYTES })).toEqual(first);
  const slower = await registry.publish(model("mlp", 60_000), { model: BYTES });
  expect(slower).toMatchObject({ version: "2", slo: 60_000 });
  expect(slower.number).not.toBe(first.number);
  const other = await registry.publish(model("mlp", 60_000), { model: Uint8Array.of(9) });
  expect(other).toMatchObject({ version: "3" });
  expect(await registry.list()).toHaveLength(1);
});

test("samples are a list of tensor messages, in a file of their own that goes with the model", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { samples } = await registry.publish(model("mlp"), {
    model: BYTES,
    samples: [Uint8Array.of(7), Uint8Array.of(8)],
  });
  const stored = (): Promise<unknown> => new Promise((resolve) => store.files.get(samples!, resolve));
  const { bytes } = (await stored()) as { bytes: Uint8Array };
  expect(unpack(bytes)).toEqual([Uint8Array.of(7), Uint8Array.of(8)]);
  await registry.remove("mlp");
  expect(await stored()).toBe("absent");
});

test("numbers are never given twice, not even after a model is gone", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const numbers = new Set<number>();
  for (let round = 0; round < 3; round++) {
    numbers.add((await registry.publish(model("a"), { model: BYTES })).number);
    numbers.add((await registry.publish(model("a", 40_000 + round), { model: BYTES })).number);
    numbers.add((await registry.publish(model("b"), { model: BYTES })).number);
    expect(await registry.remove("a")).toBe(true);
    expect(await registry.remove("b")).toBe(true);
  }
  expect(numbers.size).toBe(9);
  expect(await listEntries(store, BUCKET.models)).toEqual([]);
});

test("of several who load one name at the same time all end with the same model", async () => {
  const registry = new ModelRegistry(new InMemoryStore());
  const specs = await Promise.all(Array.from({ length: 5 }, () => registry.publish(model("mlp"), { model: BYTES })));
  expect(new Set(specs.map((spec) => spec.number)).size).toBe(1);
});

test("whoever died between reserving a name and writing its model does not block the name", async () => {
  const store = new InMemoryStore();
  await putEntry(store, BUCKET.models, "mlp", toJson({ reserved: true }));
  const registry = new ModelRegistry(store);
  expect(await registry.list()).toEqual([]);
  expect(await registry.publish(model("mlp"), { model: BYTES })).toMatchObject({ name: "mlp", version: "1" });
});

test("a model of a newer form is neither listed, overwritten nor removed (STORED-4)", async () => {
  const store = new InMemoryStore();
  const newer = toJson({ form: 2, name: "mlp", number: 1, tensors: [] });
  await putEntry(store, BUCKET.models, "mlp", newer);
  const registry = new ModelRegistry(store);
  expect(await registry.list()).toEqual([]);
  for (const change of [registry.publish(model("mlp"), { model: BYTES }), registry.remove("mlp")])
    await expect(change).rejects.toThrow("written by a newer release");
  expect((await getEntry(store, BUCKET.models, "mlp"))?.value).toEqual(newer);
});

test("what is stored says its form, and what is read doesn't show it: a model loaded again is the same (STORED-1)", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const spec = await registry.publish(model("mlp"), { model: BYTES });
  expect(new TextDecoder().decode((await getEntry(store, BUCKET.models, "mlp"))?.value)).toMatch(/^{"form":1,/);
  expect(await registry.get("mlp")).toEqual(spec);
  expect(await registry.publish(model("mlp"), { model: BYTES })).toEqual(spec);
});

test("unloading removes a file only when no other model is made of it", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { file } = await registry.publish(model("a"), { model: BYTES });
  await registry.publish(model("b"), { model: BYTES });
  const stored = (): Promise<unknown> => new Promise((resolve) => store.files.get(file!.object, resolve));
  await registry.remove("a");
  expect(await stored()).toEqual({ bytes: BYTES });
  await registry.remove("b");
  expect(await stored()).toBe("absent");
  expect(await registry.remove("b")).toBe(false);
});

test("a model that is unloaded to be kept comes back with its file and a new number, until it is forgotten", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const first = await registry.publish(model("a"), { model: BYTES });
  const second = await registry.publishVersion({ ...model("a"), version: "2" }, { model: BYTES });
  const stored = (): Promise<unknown> => new Promise((resolve) => store.files.get(first.file!.object, resolve));
  for (const { name } of [first, second]) expect(await registry.remove(name, true)).toBe(true);
  expect([await registry.list(), await registry.isUnloaded("a")]).toEqual([[], true]);
  await registry.restore("a");
  const back = (await registry.list()).map(({ spec }) => spec);
  expect(back).toEqual([first, second].map((spec, i) => ({ ...spec, number: back[i]!.number })));
  expect(back.every(({ number }) => number > second.number)).toBe(true);
  expect([await registry.isUnloaded("a"), await stored()]).toEqual([false, { bytes: BYTES }]);

  for (const { name } of back) await registry.remove(name, true);
  expect(await registry.forget("a/2")).toBe(true);
  await registry.restore("a");
  expect((await registry.list()).map(({ spec }) => spec.name)).toEqual(["a"]);
  await registry.remove("a", true);
  expect([await registry.forget("a"), await stored(), await registry.forget("a")]).toEqual([true, "absent", false]);
  await registry.restore("a");
  expect(await listEntries(store, BUCKET.models)).toEqual([]);
});

test("a model that is published takes the place of the one that was unloaded", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { file } = await registry.publish(model("a"), { model: BYTES });
  await registry.remove("a", true);
  const newer = await registry.publish(model("a"), { model: Uint8Array.of(9) });
  await registry.restore("a");
  expect((await registry.list()).map(({ spec }) => spec)).toEqual([newer]);
  expect(await new Promise((resolve) => store.files.get(file!.object, resolve))).toBe("absent");
});

test("a version that is published ends that others of its model come back", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { file } = await registry.publish(model("a"), { model: BYTES });
  await registry.remove("a", true);
  const newer = await registry.publish({ ...model("a/3"), version: "3" }, { model: Uint8Array.of(9) });
  expect(await registry.isUnloaded("a")).toBe(false);
  await registry.restore("a");
  expect((await registry.list()).map(({ spec }) => spec)).toEqual([newer]);
  expect(await new Promise((resolve) => store.files.get(file!.object, resolve))).toBe("absent");
});

test("a model that can't be restored, since its name has been taken, leaves no files", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { file } = await registry.publish(model("a"), { model: BYTES });
  await registry.remove("a", true);
  const newer = { ...(await registry.publish(model("b"), { model: Uint8Array.of(9) })), name: "a" };
  await putEntry(store, BUCKET.models, "a", toJson(newer)); // its publisher has not come to forget the one before
  await registry.restore("a");
  expect([await registry.get("a"), await registry.isUnloaded("a")]).toEqual([newer, false]);
  const stored = (object: string): Promise<unknown> => new Promise((resolve) => store.files.get(object, resolve));
  expect(await stored(file!.object)).toBe("absent");
  expect(await stored(newer.file!.object)).toEqual({ bytes: Uint8Array.of(9) });
});

test("of more unloaded models than are kept, the first is gone, its file too", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { file } = await registry.publish(model("first"), { model: BYTES });
  await registry.remove("first", true);
  for (let i = 0; i < UNLOADED_MODELS_MAX; i++) {
    expect(await registry.isUnloaded("first")).toBe(true);
    await registry.publish(model(`m${i}`), { model: Uint8Array.of(9) });
    await registry.remove(`m${i}`, true);
  }
  expect([await registry.isUnloaded("first"), await registry.isUnloaded("m0")]).toEqual([false, true]);
  expect(await new Promise((resolve) => store.files.get(file!.object, resolve))).toBe("absent");
});

test("a model is served when it is ready and a batcher has it", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const spec = await registry.publish(model("mlp"), { model: BYTES });
  const states: string[] = [];
  const served = registry.waitUntilServed(spec, { timeoutMs: 10_000, onState: ({ state }) => states.push(state) });
  await tell(store, { ...statusOf(spec, "ready"), number: spec.number + 1 }); // of another number: says nothing
  await tell(store, statusOf(spec, "profiling"));
  await tell(store, statusOf(spec, "ready"));
  await putEntry(store, BUCKET.leases, leaseKeys.model(spec.number), toJson({ batcher: 1 }));
  expect(await served).toMatchObject({ state: "ready" });
  expect(states).toEqual(["profiling", "ready"]);
});

test("a refusal ends the waiting with its reason, without any batcher", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const spec = await registry.publish(model("mlp"), { model: BYTES });
  const served = registry.waitUntilServed(spec, { timeoutMs: 10_000 });
  await tell(store, statusOf(spec, "refused", "l(1) is 40 ms, the SLO 30 ms"));
  expect(await served).toMatchObject({ state: "refused", reason: "l(1) is 40 ms, the SLO 30 ms" });
});

test("waiting has an end, and says how far the model was", async () => {
  const registry = new ModelRegistry(new InMemoryStore());
  const spec = await registry.publish(model("mlp"), { model: BYTES });
  await expect(registry.waitUntilServed(spec, { timeoutMs: 1 })).rejects.toMatchObject({
    code: "TUTTI_NOT_READY",
    message: expect.stringContaining("no executor and profiler run"),
  });
  const abort = new AbortController();
  const waiting = registry.waitUntilServed(spec, { timeoutMs: 10_000, signal: abort.signal });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "TUTTI_CANCELLED" });
});

test("a store that does not answer is UNAVAILABLE, and what can't be read is left out", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  await putEntry(store, BUCKET.models, "broken", new TextEncoder().encode("{"));
  expect(await registry.list()).toEqual([]);
  store.available = false;
  await expect(registry.get("mlp")).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  store.available = true;
  expect(await getEntry(store, BUCKET.models, "none")).toBeUndefined();
});

test("a tensor or an axis that no object could have as its key is refused by name", async () => {
  const registry = new ModelRegistry(new InMemoryStore());
  const named = (name: string, axis: string): DesiredModel => ({
    ...model("mlp"),
    inputs: [{ name, type: "FP32", dims: ["batch", axis] }],
  });
  await expect(registry.publish(named("__proto__", "W"))).rejects.toThrow('"__proto__"');
  await expect(registry.publish(named("x", "__proto__"))).rejects.toThrow('"__proto__"');
  expect((await registry.publish(named("constructor", "W"))).version).toBe("1");
});

test("a model that no executor serves is listed as parked, since when, and where it is being loaded", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const specs = [];
  for (const name of ["asleep", "leaving", "used", "waking"]) specs.push(await registry.publish(model(name)));
  const [asleep, leaving, used, waking] = specs.map(({ number }) => number);
  const placement = {
    ...{ epoch: 1, madeAt: 9, gpus: [] },
    models: [leaving, used].map((number) => ({ number, subCluster: "main" })),
    parked: [
      { number: asleep, since: 5 },
      { number: leaving, since: 6 },
      { number: waking, since: 7, next: "main" },
    ],
  };
  await putEntry(store, BUCKET.plan, PLACEMENT_KEY, toJson(placement));
  const listed = (await registry.list()).map(({ spec, parked }) => [spec.name, parked?.since, parked?.next]);
  expect(listed).toEqual([
    ["asleep", 5, undefined],
    ["leaving", undefined, undefined],
    ["used", undefined, undefined],
    ["waking", 7, "main"],
  ]);
});
