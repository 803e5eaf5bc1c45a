import { BUCKET, type ModelSpec, type ModelStatus, type Route, routeKeys, withPercent } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type Logger, noTelemetry } from "@tutti/ports/telemetry";
import { actorKey, instant, micros } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { beforeEach, expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import { VersionRouter } from "./version-router.ts";

let store: InMemoryStore;
let models: Map<string, CatalogModel>;
let said: { readonly level: string; readonly about: Record<string, unknown> }[];
let router: VersionRouter;
beforeEach(async () => {
  store = new InMemoryStore();
  models = new Map();
  said = [];
  put("m", 1, "1");
  put("m/2", 2, "2");
  const note = (level: string) => (about: object) => void said.push({ level, about: { ...about } });
  const log: Logger = { ...noTelemetry.log, warn: note("warn"), info: note("info") };
  const catalog = { target: (name: string) => models.get(name), models: () => models.values() };
  router = new VersionRouter({ store, log, catalog: () => catalog, pipelines: () => ["receipts"] });
  await new Promise<void>((resolve) => router.open(resolve));
});

function put(name: string, number: number, version: string, state: ModelStatus["state"] = "ready", reason = ""): void {
  const spec = { ...{ name, number, version }, slo: micros(1) } as ModelSpec;
  const status = { ...{ name, number, version, state, reason } } as ModelStatus;
  models.set(name, { spec, status, lease: { batcher: actorKey(3), term: 1 } });
}
async function share(percent: number, otherwise = "1"): Promise<void> {
  const slices = withPercent([], "2", percent)!;
  const state = { at: instant(1), by: "operator", why: "", default: otherwise, slices };
  const route: Route = { name: "m", states: [state] };
  await new Promise((resolve) => store.put(BUCKET.plan, routeKeys.model("m"), toJson(route), resolve));
  await new Promise((resolve) => store.get(BUCKET.plan, "nothing", resolve));
}
const versionOf = (id: string, target = "m", version?: string): string =>
  router.resolve({ target, version, id }).model.spec.version;
const ids = Array.from({ length: 1_000 }, (_, i) => `request-${i}`);

test("a share of the ids goes to the version that has it, each id always, and what is named goes where it is named", async () => {
  expect(new Set(ids.map((id) => versionOf(id)))).toEqual(new Set(["1"]));
  await share(30);
  const first = ids.map((id) => versionOf(id));
  expect(ids.map((id) => versionOf(id))).toEqual(first);
  const count = first.filter((version) => version === "2").length;
  expect(Math.abs(count - 300)).toBeLessThan(60); // four standard deviations
  expect(ids.map((id) => versionOf(id, "m", "1")).every((version) => version === "1")).toBe(true);
  expect(versionOf("any", "m/2")).toBe("2");
});

test("a version that can't be served has its share at the default, which is said once, and once more when it is over", async () => {
  await share(100);
  expect(versionOf("a")).toBe("2");
  put("m/2", 2, "2", "quarantined", "it ended its executor");
  router.look("m/2");
  router.look("m/2");
  expect(versionOf("a")).toBe("1");
  put("m/2", 2, "2");
  router.look("m/2");
  expect(versionOf("a")).toBe("2");
  const about = { model: "m", version: "2", percent: 100 };
  expect(said).toEqual([
    { level: "warn", about: { ...about, state: "quarantined", reason: "it ended its executor" } },
    { level: "info", about },
  ]);
  expect(router.figures).toEqual({ routes: 1, fellBack: 1 });
  models.delete("m/2");
  expect(versionOf("a")).toBe("1");
});

test("without the model of its own name a route's default answers for it, and nobody else does", async () => {
  models.delete("m");
  await share(0, "2");
  expect(versionOf("a")).toBe("2");
  put("m/2", 2, "2", "failed", "no such operator");
  expect(() => versionOf("a")).toThrow(/not served: no such operator/);
  expect(() => versionOf("a", "m", "7")).toThrow(/is served in version 2, not 7/);
  expect(() => versionOf("a", "m/2", "7")).toThrow(/asks for version 2/);
  expect(() => versionOf("a", "other")).toThrow(/no model named "other" is loaded: "tutti models" lists/);
});

test("a name that no model has is refused with the near one, be it a model's or a variant's of a family", () => {
  put("resnet50", 4, "1");
  put("heads", 5, "1");
  const { spec } = models.get("heads")!;
  const family = { ...spec, family: { variants: [{ name: "bert-a" }] } } as unknown as ModelSpec;
  models.set("heads", { ...models.get("heads")!, spec: family });
  expect(() => versionOf("a", "resnet5")).toThrow(/no model named "resnet5" is loaded: did you mean "resnet50"/);
  expect(() => versionOf("a", "resnet5", "1")).toThrow(/did you mean "resnet50"/);
  expect(() => versionOf("a", "receipt")).toThrow(/did you mean "receipts"/);
  expect(() => versionOf("a", "berta")).toThrow(/did you mean "bert-a"/);
  expect(() => versionOf("a", "head")).toThrow(/"tutti models" lists what is/);
});
