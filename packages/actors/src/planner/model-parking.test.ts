/** The planner parks models that nobody asks for, and wakes them (docs/planning.md, Scale to zero). */
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
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
