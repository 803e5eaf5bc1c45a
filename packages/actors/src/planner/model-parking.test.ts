/** The planner parks models that nobody asks for, and wakes them (docs/planning.md, Scale to zero). */
import type { Placement } from "@tutti/protocol";
import { type Instant, instant, millis, seconds } from "@tutti/units";
import { expect, test, vi } from "vitest";
import type { CatalogModel } from "../runtime/catalog.ts";
import { ModelParking } from "./model-parking.ts";
import { ScalingAdvice } from "./scaling-advice.ts";
import { PlannerScene } from "./testing/planner-scene.ts";

/** Two models that may be parked after ten seconds, and one that may not. */
function scene(): PlannerScene {
  const made = new PlannerScene();
  made.ranker("main");
  for (const gpu of [0, 1]) made.executor(gpu);
  for (const number of [1, 2]) made.model(number, { idleS: 10 });
  made.model(3);
  made.ingress();
  return made;
}
const parked = (made: PlannerScene): string[] =>
  (made.placement?.parked ?? []).map(({ number, next }) => (next === undefined ? `${number}` : `${number}>${next}`));

test("an idle model loses its place in two steps, one that is used and one without the option keep it", () => {
  const made = scene();
  made.planner();
  made.rates.set(2, { rate: 1, badPercent: 0 });
  made.run(seconds(13));
  expect([made.models, parked(made)]).toEqual([{ 1: "main", 2: "main", 3: "main" }, ["1"]]);
  made.run(seconds(4));
  expect([made.models, parked(made)]).toEqual([{ 2: "main", 3: "main" }, ["1"]]);
  expect(made.placement?.parked?.[0]?.since).toBeLessThan(made.clock.now());
  const { length } = made.placements;
  made.run(seconds(60));
  expect(made.placements).toHaveLength(length);
});

test("a model that an ingress names is loaded within 200 ms, and served once executors report it", () => {
  const made = scene();
  made.planner();
  made.run(seconds(20));
  expect(parked(made)).toEqual(["1", "2"]);
  made.want([2]);
  made.run(millis(200));
  expect([made.models, parked(made)]).toEqual([{ 3: "main" }, ["1", "2>main"]]);
  made.run(seconds(1));
  expect([made.models, parked(made)]).toEqual([{ 2: "main", 3: "main" }, ["1"]]);
});

test("the figures of ingresses wake a model too: of one that knows no parked models, or whose message is lost", () => {
  const made = scene();
  made.planner();
  made.run(seconds(20));
  made.rates.set(1, { rate: 1, badPercent: 0 });
  made.run(seconds(4));
  expect(made.models).toEqual({ 1: "main", 3: "main" });
});

test("a planner that starts keeps what is parked, goes on loading what wakes, and counts idle times anew", () => {
  const made = scene();
  const first = made.planner();
  made.run(seconds(20));
  made.loading = seconds(8);
  made.want([2]);
  made.run(millis(300));
  first.actor.drain(() => undefined);
  made.planner();
  made.run(seconds(5));
  expect(parked(made)).toEqual(["1", "2>main"]);
  made.want([2]); // as ingresses do every second
  made.run(seconds(5));
  expect([made.models, parked(made)]).toEqual([{ 2: "main", 3: "main" }, ["1"]]);
});

test("a model that has to be measured again is not parked, and a parked one gets a place for it", () => {
  const made = scene();
  made.planner();
  made.run(seconds(20));
  const unknown = { reason: "", profiles: [], means: [], executorTypes: [] };
  made.status({ ...unknown, name: "m1", number: 1, version: "1", state: "loading" });
  made.run(seconds(2));
  expect([made.models, parked(made)]).toEqual([{ 1: "main", 3: "main" }, ["2"]]);
  made.run(seconds(60));
  expect(made.models).toEqual({ 1: "main", 3: "main" });
});

test("a cluster whose models are all parked keeps its accelerators, and one that is unloaded is forgotten", () => {
  const made = scene();
  made.unload(3);
  made.planner();
  made.run(seconds(20));
  expect([made.models, parked(made), made.gpus]).toEqual([{}, ["1", "2"], { main: 2 }]);
  made.unload(1);
  made.run(seconds(2));
  expect(parked(made)).toEqual(["2"]);
  made.want([2]);
  made.run(seconds(1));
  expect(made.models).toEqual({ 2: "main" });
});

test("the advice on scaling hears of parked models too, or each would make it forget what it has learnt", () => {
  const hear = vi.spyOn(ScalingAdvice.prototype, "hear");
  const made = scene();
  made.planner();
  made.run(seconds(20));
  made.want([2]);
  made.run(seconds(3));
  const heard = hear.mock.calls.map(([{ models }]) => models.map(({ number }) => number).join());
  hear.mockRestore();
  expect(new Set(heard)).toEqual(new Set(["1,2,3"]));
});

const at = (s: number): Instant => instant(1_000e6 + s * 1e6);
const one = {
  spec: { number: 1, scaleToZero: { idle: seconds(10), coldStart: seconds(30) } },
  status: { state: "ready" },
} as unknown as CatalogModel;
const served: Placement = { epoch: 1, madeAt: at(0), models: [{ number: 1, subCluster: "main" }], gpus: [] };
const parkedAt = (s: number): Placement => ({ ...served, models: [], parked: [{ number: 1, since: at(s) }] });

test("a planner that returns to duty counts idle times anew", () => {
  const parking = new ModelParking({ models: () => [one] });
  parking.look(served, at(0));
  expect(parking.look(served, at(11))).toBe(true);
  parking.want([1], served, at(12));
  parking.rest();
  expect([parking.look(served, at(60)), parking.look(served, at(69)), parking.look(served, at(70))]).toEqual([
    ...[false, false, true],
  ]);
});

test("a parked model wakes for the first request that a planner hears of, and though the clock of the one before was ahead", () => {
  for (const since of [0, 105]) {
    const parking = new ModelParking({ models: () => [one] });
    expect(parking.want([1, 2], parkedAt(since), at(100))).toBe(true);
    expect([...parking.now(parkedAt(since), at(100)).waking]).toEqual([1]);
  }
});
