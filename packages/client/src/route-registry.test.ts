import { BUCKET, type ModelStatus, TuttiError, percentOf, routeKeys, stateOf, unloadedKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { instant, micros, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { type DesiredModel, ModelRegistry } from "./model-registry.ts";
import { RouteRegistry } from "./route-registry.ts";
import { getEntry, putEntry } from "./store-calls.ts";

const model = (name: string, more: Partial<DesiredModel> = {}): DesiredModel => ({
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
  ...more,
});

class Scene {
  readonly store = new InMemoryStore();
  readonly models = new ModelRegistry(this.store);
  readonly routes = new RouteRegistry(this.store, () => instant(this.at++));
  at = 1_000_000;

  /** Loads a version and publishes its state. */
  async load(name: string, version: string, state: ModelStatus["state"] = "ready", more: Partial<DesiredModel> = {}) {
    const files = { model: new TextEncoder().encode(`${name}/${version}`) };
    const spec = await this.models.publishVersion({ ...model(name, more), version }, files);
    const { name: key, number } = spec;
    const status = { name: key, number, version, state, reason: "", profiles: [], means: [], executorTypes: [] };
    await putEntry(this.store, BUCKET.profiles, key, toJson(status));
    return spec;
  }
  /** Shares of the named versions, in percent. */
  async shares(name: string, ...versions: string[]): Promise<number[]> {
    const state = stateOf((await this.routes.get(name))!);
    return versions.map((version) => percentOf(state, version));
  }
}
const refusal = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "done",
    (error: unknown) => (error instanceof TuttiError ? `${error.code} ${error.message}` : String(error)),
  );

test("the first version has the model's own name, others are served beside it, and a known one is replaced where it is", async () => {
  const scene = new Scene();
  const first = await scene.load("mlp", "1");
  const second = await scene.load("mlp", "2");
  expect([first.name, second.name, second.version]).toEqual(["mlp", "mlp/2", "2"]);
  expect((await scene.load("mlp", "1", "ready", { patience: 0.5 })).name).toBe("mlp");
  expect((await scene.load("mlp", "2", "ready", { patience: 0.5 })).name).toBe("mlp/2");
  expect((await scene.routes.versions("mlp")).map(({ spec }) => spec.version)).toEqual(["1", "2"]);
  // A publish without a version skips the versions that are taken.
  expect((await scene.models.publish(model("mlp"))).version).toBe("3");
  expect(await refusal(scene.models.publish({ ...model("mlp"), version: "2" }))).toContain("is there already");
});

test("a share is given at once, by history, and taken back to exactly what it was", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  await scene.routes.setShare("mlp", { version: "2", percent: 10 });
  expect(await scene.shares("mlp", "1", "2")).toEqual([90, 10]);
  await scene.routes.setShare("mlp", { version: "2", percent: 100 });
  expect(await scene.shares("mlp", "1", "2")).toEqual([0, 100]);
  await scene.routes.back("mlp");
  expect(await scene.shares("mlp", "1", "2")).toEqual([90, 10]);
  const { states } = (await scene.routes.get("mlp"))!;
  expect(states.map(({ why }) => why)).toEqual([
    "nothing is shared",
    "10 % to version 2",
    "100 % to version 2",
    "back to the state before",
  ]);
  expect(await scene.routes.clear("mlp")).toBe(true);
  expect(await scene.routes.get("mlp")).toBeUndefined();
  // A key that was deleted can be made again.
  await scene.routes.setShare("mlp", { version: "2", percent: 1 });
  expect(await scene.shares("mlp", "2")).toEqual([1]);
});

test("what the planner took back isn't given again by going back: only an operator's own changes are undone", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  await scene.routes.setShare("mlp", { version: "2", percent: 50 });
  const route = (await scene.routes.get("mlp"))!;
  const [before] = route.states;
  const why = "version 2 was rolled back at 50 %: 9 of 10 are late";
  const states = [...route.states, { ...before!, by: "planner", why }];
  await putEntry(scene.store, BUCKET.plan, routeKeys.model("mlp"), toJson({ ...route, states }));
  expect(await refusal(scene.routes.back("mlp"))).toBe(
    `TUTTI_INVALID_INPUT "mlp" went back by itself: ${why}; \`tutti rollout mlp --to <version> --percent <n>\` gives shares anew`,
  );
  expect(await scene.shares("mlp", "1", "2")).toEqual([100, 0]);
  await scene.routes.setShare("mlp", { version: "2", percent: 5 });
  await scene.routes.back("mlp");
  expect(await scene.shares("mlp", "1", "2")).toEqual([100, 0]);
});

test("another default takes over what nobody else has, and its predecessor can then be unloaded", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  expect(await refusal(scene.routes.unload("mlp/1"))).toContain("it is the default");
  await scene.routes.setShare("mlp", { version: "2", percent: 40 });
  expect(await refusal(scene.routes.unload("mlp/2"))).toContain("40 % of the requests go to it");
  await scene.routes.setDefault("mlp", "2");
  expect(await scene.shares("mlp", "1", "2")).toEqual([0, 100]);
  expect(await scene.routes.unload("mlp/1")).toBe(true);
  expect(await refusal(scene.routes.back("mlp"))).toContain('version 1 of "mlp" is not loaded any more');
  expect(await refusal(scene.routes.clear("mlp"))).toContain("without a route nobody would answer");
  expect(await scene.routes.unload("mlp/1")).toBe(false);
  expect(await scene.routes.unload("mlp", { keep: true })).toBe(true);
  expect(await scene.routes.unload("mlp", { keep: true })).toBe(true); // it is unloaded already
  expect(await scene.routes.unload("mlp")).toBe(true);
  expect(await scene.routes.unload("mlp", { keep: true })).toBe(false);
  expect(await scene.models.list()).toEqual([]);
  expect(await scene.routes.get("mlp")).toBeUndefined();
});

test("a model that is unloaded for good takes with it what was kept of it", async () => {
  const scene = new Scene();
  const first = await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  const kept = (await getEntry(scene.store, BUCKET.models, "mlp"))!.value;
  await scene.routes.unload("mlp", { keep: true });
  await scene.load("mlp", "3");
  // As a publisher leaves it that ends before it forgets the one before.
  const unloaded = toJson({ reserved: true, unloaded: JSON.parse(new TextDecoder().decode(kept)) as unknown });
  await putEntry(scene.store, BUCKET.models, unloadedKeys.model("mlp"), unloaded);
  await new Promise((resolve) => scene.store.files.put(first.file!.object, Uint8Array.of(1), resolve));
  expect(await scene.models.isUnloaded("mlp")).toBe(true);
  expect(await scene.routes.unload("mlp")).toBe(true);
  expect(await scene.models.isUnloaded("mlp")).toBe(false);
  await scene.models.restore("mlp");
  expect(await scene.models.list()).toEqual([]);
  expect(await new Promise((resolve) => scene.store.files.get(first.file!.object, resolve))).toBe("absent");
});

test("a version that is not there, not ready, or asked in another way gets nothing, and is told why", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2", "quarantined");
  await scene.load("mlp", "3", "profiling");
  await scene.load("mlp", "4", "ready", { inputs: [{ name: "x", type: "FP32", dims: ["batch", 5] }] });
  const to = (version: string, percent = 10): Promise<string> =>
    refusal(scene.routes.setShare("mlp", { version, percent }));
  expect(await to("2")).toBe('TUTTI_NOT_READY version 2 of "mlp" is not ready but quarantined');
  expect(await to("3")).toBe('TUTTI_NOT_READY version 3 of "mlp" is not ready but profiling');
  expect(await to("4")).toContain('TUTTI_INVALID_INPUT version 4 of "mlp" has other inputs');
  expect(await to("5")).toContain('TUTTI_NOT_FOUND version 5 of "mlp" is not loaded; there is 1, 2, 3, 4');
  expect(await to("1")).toContain("is the default");
  expect(await to("2", 101)).toContain("no percentage");
  expect(await refusal(scene.routes.setShadow("mlp", { version: "4", percent: 10 }))).toContain("other inputs");
  expect(await refusal(scene.routes.setShadow("mlp", { version: "1", percent: 10 }))).toContain("is the default");
  expect(await refusal(scene.routes.setDefault("mlp", "2"))).toContain("not ready");
  expect(await refusal(scene.routes.setShare("other", { version: "2", percent: 1 }))).toContain("TUTTI_NOT_FOUND");
  expect(await refusal(scene.routes.back("mlp"))).toContain("no rollout to go back from");
  expect(await scene.routes.get("mlp")).toBeUndefined();
});

test("more than the default has is not given", async () => {
  const scene = new Scene();
  for (const version of ["1", "2", "3"]) await scene.load("mlp", version);
  await scene.routes.setShare("mlp", { version: "2", percent: 70 });
  expect(await refusal(scene.routes.setShare("mlp", { version: "3", percent: 40 }))).toContain("has 30 % to give");
  await scene.routes.setShare("mlp", { version: "1", percent: 100 });
  expect(await scene.shares("mlp", "1", "2")).toEqual([100, 0]);
});

test("a model whose requests are shared is not replaced by the way", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  await scene.routes.setShare("mlp", { version: "2", percent: 5 });
  expect(await refusal(scene.models.publish(model("mlp", { patience: 0 })))).toContain("shared between versions");
});

test("a ramp begins with its first step and says what is to be watched", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  const ramp = { over: seconds(60), badMax: 0.01, mismatchMax: 0 };
  const route = await scene.routes.setShare("mlp", { version: "2", percent: 100, ramp });
  expect(await scene.shares("mlp", "2")).toEqual([1]);
  expect(stateOf(route).ramp).toMatchObject({ ...ramp, step: 0, steps: [1, 2, 5, 10, 25, 50, 75, 100] });
  expect(await refusal(scene.routes.unload("mlp/2"))).toContain("1 % of the requests");
});

test("of two that change a route at once both succeed, one after the other", async () => {
  const scene = new Scene();
  for (const version of ["1", "2", "3"]) await scene.load("mlp", version);
  await Promise.all(["2", "3"].map((version) => scene.routes.setShare("mlp", { version, percent: 30 })));
  expect(await scene.shares("mlp", "1", "2", "3")).toEqual([40, 30, 30]);
});

test("a route of a newer form is not overwritten, and the refusal says what to upgrade (STORED-4)", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  const newer = toJson({ form: 2, name: "mlp", shares: {} });
  await putEntry(scene.store, BUCKET.plan, routeKeys.model("mlp"), newer);
  expect(await refusal(scene.routes.setShare("mlp", { version: "2", percent: 30 }))).toContain(
    "the route was written by a newer release (form 2, and this release reads up to 1): upgrade this one",
  );
  expect((await getEntry(scene.store, BUCKET.plan, routeKeys.model("mlp")))?.value).toEqual(newer);
});

test("an entry that can't be read is no route, and is made anew by the next change", async () => {
  const scene = new Scene();
  await scene.load("mlp", "1");
  await scene.load("mlp", "2");
  await putEntry(scene.store, BUCKET.plan, routeKeys.model("mlp"), toJson({ name: "mlp", states: [7] }));
  expect(await scene.routes.list()).toEqual([]);
  await scene.routes.setShare("mlp", { version: "2", percent: 30 });
  expect(await scene.routes.list()).toHaveLength(1);
});
