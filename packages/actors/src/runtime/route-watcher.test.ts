import { BUCKET, type Route, routeKeys, withPercent } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type Logger, noTelemetry } from "@tutti/ports/telemetry";
import { instant } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { beforeEach, expect, test } from "vitest";
import { RouteWatcher } from "./route-watcher.ts";

let store: InMemoryStore;
let warned: string[];
let changed: string[];
let routes: RouteWatcher;
beforeEach(async () => {
  store = new InMemoryStore();
  [warned, changed] = [[], []];
  const log: Logger = { ...noTelemetry.log, warn: (_: unknown, text?: string) => void warned.push(text ?? "") };
  write("mlp", route("mlp", 10));
  routes = new RouteWatcher(store, log, (name) => changed.push(name));
  await new Promise<void>((resolve) => routes.open(resolve));
});

const route = (name: string, percent: number): Route => ({
  name,
  states: [{ at: instant(1), by: "operator", why: "", default: "1", slices: withPercent([], "2", percent)! }],
});
const write = (name: string, value: unknown): void =>
  store.put(BUCKET.plan, routeKeys.model(name), value instanceof Uint8Array ? value : toJson(value), () => undefined);
/** Resolves when the store has delivered all changes. */
const settled = (): Promise<unknown> => new Promise((resolve) => store.get(BUCKET.plan, "nothing", resolve));

test("what is there is known when the book is open, and told by nobody; changes and their revisions follow", async () => {
  expect([routes.size, changed]).toEqual([1, []]);
  expect(routes.get("mlp")).toEqual(route("mlp", 10));
  const [{ revision } = { revision: 0 }] = [...routes.known()];
  write("mlp", route("mlp", 20));
  await settled();
  expect([routes.get("mlp"), changed]).toEqual([route("mlp", 20), ["mlp"]]);
  expect([...routes.known()][0]!.revision).toBeGreaterThan(revision);
  store.delete(BUCKET.plan, routeKeys.model("mlp"), () => undefined);
  await settled();
  expect([routes.size, changed]).toEqual([0, ["mlp", "mlp"]]);
});

test("an entry that can't be read, is of another name or a newer form changes nothing, and is reported once", async () => {
  for (const bad of [Uint8Array.of(123, 1), { name: "mlp", states: [] }, { states: 7 }, route("other", 5), null])
    write("mlp", bad);
  write("mlp", { form: 2, ...route("mlp", 90) });
  store.put(BUCKET.plan, "placement", toJson(route("placement", 5)), () => undefined);
  await settled();
  expect([routes.get("mlp"), changed, routes.size]).toEqual([route("mlp", 10), [], 1]);
  expect(warned).toEqual(new Array(2).fill("ignored an entry that can't be read"));
});
