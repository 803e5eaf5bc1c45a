/** Models leave the executors while nobody asks for them, and come back for their first request: in virtual time. */
import type { Engine } from "@tutti/ports/engine";
import { inlineSteps } from "@tutti/ports/steps";
import { BUCKET, PLACEMENT_KEY, type Placement, isPlacement } from "@tutti/protocol";
import { type Micros, gpuId, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { findAndRead, scalar } from "./find-and-read.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

/** l(b) = b + 4 ms. */
const SHAPE = { alphaMs: 1, betaMs: 4, sloMs: 60, batchSizeMax: 8 } as const;
const IDLE = seconds(10);
const COLD_START = seconds(5);
const SCALE_TO_ZERO = { scaleToZero: { idleS: IDLE / 1e6, coldStartS: COLD_START / 1e6 } };
/** A planner hears everybody first, then figures come once a second, and the mark stays for two seconds. */
const PARKED_AFTER = seconds(10 + 3 + 2 + 2);

class Scene {
  readonly cluster: VirtualCluster;
  readonly placements: Placement[] = [];
  /** Models that each accelerator has loaded. */
  readonly loaded = new Map<number, Set<string>>();
  /** Time that a load takes, and accelerators on which it fails. */
  loading: Micros = millis(400);
  readonly fails = new Set<number>();
  readonly #numbers = new Map<string, number>();
  #planners = 0;

  constructor(options: VirtualClusterOptions = {}) {
    const wrapEngine = (engine: Engine, gpu: number): Engine => this.#watched(engine, gpu);
    this.cluster = new VirtualCluster({ gpus: 2, executors: 2, wrapEngine, ...options });
    this.cluster.store.watch(BUCKET.plan, PLACEMENT_KEY, {
      onEntry: ({ key, value }) => {
        const read: unknown = fromJson(value);
        if (key === PLACEMENT_KEY && isPlacement(read)) this.placements.push(read);
      },
      onDelete: () => undefined,
      onReady: () => undefined,
      onFailure: () => undefined,
    });
  }

  model(name: string, more: { readonly memory?: number; readonly scaleToZero?: undefined } = {}): void {
    this.#numbers.set(name, this.#numbers.size + 1);
    this.cluster.addModel({ ...SHAPE, ...SCALE_TO_ZERO, name, ...more } as Parameters<VirtualCluster["addModel"]>[0]);
  }
  planner(): string {
    const name = `planner-${this.#planners++}`;
    this.cluster.startPlanner(name, { epoch: seconds(6) });
    return name;
  }

  /** `served`, `leaving`, `parked` or `waking`. */
  state(name: string): string {
    const number = this.#numbers.get(name);
    const { models = [], parked = [] } = this.placements.at(-1) ?? {};
    const isServed = models.some((model) => model.number === number);
    const mark = parked.find((one) => one.number === number);
    if (isServed) return mark === undefined ? "served" : "leaving";
    return mark === undefined ? "nowhere" : mark.next === undefined ? "parked" : "waking";
  }
  /** Number of accelerators that have it loaded. */
  copies(name: string): number {
    return [...this.loaded.values()].filter((models) => models.has(name)).length;
  }
  until(name: string, state: string, limit: Micros = PARKED_AFTER): void {
    expect(
      this.cluster.runUntil(() => this.state(name) === state, limit),
      `${name} is ${this.state(name)}`,
    ).toBe(true);
  }
  ask(name: string, sloMs: number = SHAPE.sloMs): Asked {
    return this.cluster.ask(name, { sloMs });
  }
  /** A request of each model every `every`, for a while. */
  load(names: readonly string[], duration: Micros, every: Micros = millis(50)): Asked[] {
    const asked: Asked[] = [];
    for (let at = 0; at < duration; at += every) {
      for (const name of names) asked.push(this.ask(name));
      this.cluster.run(every);
    }
    return asked;
  }

  #watched(engine: Engine, gpu: number): Engine {
    const models = new Set<string>();
    this.loaded.set(gpu, models);
    return new Proxy(engine, {
      get: (target, key) => {
        if (key === "load")
          return (...[model, done]: Parameters<Engine["load"]>): void => {
            const isFaulty = this.fails.has(gpu);
            this.cluster.later(isFaulty ? millis(10) : this.loading, () => {
              if (isFaulty) return done({ kind: "failed", reason: "there is a fault" });
              models.add(model.spec.name);
              target.load(model, done);
            });
          };
        if (key === "unload")
          return (...[name, done]: Parameters<Engine["unload"]>): void => {
            models.delete(name);
            target.unload(name, done);
          };
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }
}

const statuses = (asked: readonly Asked[]): string[] => [
  ...new Set(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join("+"))),
];
const tookMs = ({ at, outcomes }: Asked): number => (outcomes[0]!.at - at) / 1e3;

/** A cluster with parked models. */
function parked(names: readonly string[], options: VirtualClusterOptions = {}): Scene & { planned: string } {
  const scene = new Scene(options);
  for (const name of names) scene.model(name);
  const planned = scene.planner();
  for (const name of names) scene.until(name, "parked");
  scene.cluster.run(seconds(2));
  return Object.assign(scene, { planned });
}

test("an idle model leaves every executor, and its first request brings it back within its cold start", () => {
  const scene = parked(["m"]);
  expect(scene.copies("m")).toBe(0);
  const { length } = scene.placements;
  scene.cluster.run(seconds(60));
  expect(scene.placements).toHaveLength(length); // at rest nothing is written
  const first = scene.ask("m");
  scene.cluster.run(millis(200));
  expect([scene.state("m"), first.outcomes]).toEqual(["waking", []]);
  const others = scene.load(["m"], millis(600), millis(20));
  scene.cluster.run(seconds(1));
  expect([scene.state("m"), scene.copies("m")]).toEqual(["served", 2]);
  expect(statuses([first, ...others])).toEqual(["ok"]);
  // Loading takes 400 ms. The planner looks every 100 ms, and runs warm the model up.
  expect(tookMs(first)).toBeGreaterThan(400);
  expect(tookMs(first)).toBeLessThan(700);
  // Once it is served, deadlines are as before: a request that can't be met is refused at once.
  const short = scene.ask("m", 2);
  scene.cluster.run(millis(10));
  expect(statuses([short])).toEqual(["TUTTI_DEADLINE_INFEASIBLE"]);
});

test("a model that is asked for is not parked, and one without the option never is", () => {
  const scene = new Scene();
  scene.model("used");
  scene.model("kept", { scaleToZero: undefined });
  scene.planner();
  scene.cluster.run(seconds(4));
  const asked = scene.load(["used"], seconds(40), seconds(8));
  scene.cluster.run(millis(200));
  expect([scene.state("used"), scene.state("kept")]).toEqual(["served", "served"]);
  expect(statuses(asked)).toEqual(["ok"]);
  expect(scene.placements.some((placement) => placement.parked !== undefined)).toBe(false);
  scene.until("used", "parked");
  expect(scene.state("kept")).toBe("served");
});

test("a request at any moment of the leaving is answered, in its own time while the model is there (PARK-1)", () => {
  for (let i = 0; i < 12; i++) {
    const scene = new Scene();
    scene.model("m");
    scene.planner();
    scene.until("m", "leaving");
    scene.cluster.run(millis(i * 200));
    const wasServed = scene.state("m") === "leaving";
    const asked = scene.ask("m");
    scene.cluster.run(COLD_START);
    expect([scene.state("m"), ...statuses([asked])], `after ${i * 200} ms`).toEqual(["served", "ok"]);
    if (wasServed) expect(tookMs(asked)).toBeLessThan(SHAPE.sloMs + 1);
  }
});

test("a deferred request that outlasts the idle time keeps its model", () => {
  const scene = new Scene();
  scene.model("m");
  scene.planner();
  scene.cluster.run(seconds(4));
  const asked = scene.ask("m", 30_000);
  scene.cluster.run(seconds(31));
  expect(statuses([asked])).toEqual(["ok"]);
});

test("of several parked models one wakes, and requests of a served one keep their deadlines", () => {
  const scene = new Scene({ executors: 2, gpus: 2 });
  for (const name of ["a", "b", "c"]) scene.model(name);
  scene.model("busy", { scaleToZero: undefined });
  scene.loading = millis(20); // Executors load one model at a time, and are not granted meanwhile.
  scene.planner();
  scene.cluster.run(seconds(4));
  const asked: Asked[] = [];
  const states = (): string[] => ["a", "b", "c"].map((name) => scene.state(name));
  for (let second = 0; second < 20 && states().some((state) => state !== "parked"); second++)
    asked.push(...scene.load(["busy"], seconds(1)));
  expect(states()).toEqual(["parked", "parked", "parked"]);
  const woken = scene.ask("b");
  asked.push(...scene.load(["busy"], seconds(3)));
  scene.cluster.run(millis(200));
  expect(statuses([woken, ...asked])).toEqual(["ok"]);
  expect(["a", "b", "c", "busy"].map((name) => scene.state(name))).toEqual(["parked", "served", "parked", "served"]);
});

test("a burst for a parked model waits in its queue, and is answered in the largest batches at once", () => {
  const scene = parked(["m"]);
  const burst = Array.from({ length: 200 }, () => scene.ask("m"));
  scene.cluster.run(seconds(2));
  expect(statuses(burst)).toEqual(["ok"]);
  // 25 batches of 12 ms on two accelerators, after some 500 ms.
  expect(Math.max(...burst.map(tookMs))).toBeLessThan(1_000);
});

test("a planner that dies while a model is parked: its successor keeps it parked, and wakes it", () => {
  const scene = parked(["m"]);
  scene.cluster.kill(scene.planned);
  scene.cluster.run(seconds(5));
  const waiting = scene.ask("m");
  scene.cluster.run(seconds(1));
  expect([scene.state("m"), waiting.outcomes]).toEqual(["parked", []]);
  scene.planner();
  scene.cluster.run(seconds(3));
  expect([scene.state("m"), ...statuses([waiting])]).toEqual(["served", "ok"]);
  scene.until("m", "parked");
});

test("a planner that dies while a model wakes: its successor goes on from there", () => {
  const scene = parked(["m"]);
  const waiting = [scene.ask("m")];
  scene.until("m", "waking", seconds(1));
  scene.cluster.kill(scene.planned);
  waiting.push(scene.ask("m"));
  scene.cluster.run(seconds(1));
  expect([scene.state("m"), scene.copies("m")]).toEqual(["waking", 2]);
  scene.planner();
  scene.cluster.run(seconds(3));
  expect([scene.state("m"), ...statuses(waiting)]).toEqual(["served", "ok"]);
});

test("a standby planner takes over at once", () => {
  const scene = parked(["m"]);
  scene.planner();
  scene.cluster.run(seconds(5));
  scene.cluster.kill(scene.planned);
  const waiting = scene.ask("m");
  scene.cluster.run(seconds(3));
  expect([scene.state("m"), ...statuses([waiting])]).toEqual(["served", "ok"]);
});

test("a batcher that dies while requests wait loses none of them", () => {
  const scene = parked(["m"], { batchers: 2 });
  const waiting = Array.from({ length: 5 }, () => scene.ask("m"));
  scene.cluster.run(millis(150));
  scene.cluster.kill("batcher-0");
  scene.cluster.run(seconds(3));
  expect([scene.state("m"), ...statuses(waiting)]).toEqual(["served", "ok"]);
});

test("a model that one executor can't load wakes on the others", () => {
  const scene = parked(["m"]);
  scene.fails.add(0);
  const waiting = scene.ask("m");
  scene.cluster.run(seconds(2));
  const others = scene.load(["m"], seconds(1));
  scene.cluster.run(millis(200));
  expect([scene.state("m"), scene.copies("m"), ...statuses([waiting, ...others])]).toEqual(["served", 1, "ok"]);
});

test("a model that no executor can load fails with the reason, for each request at once", () => {
  const scene = parked(["m"]);
  for (const gpu of [0, 1]) scene.fails.add(gpu);
  const asked = scene.ask("m");
  scene.cluster.run(seconds(2));
  const later = scene.ask("m");
  scene.cluster.run(millis(100));
  for (const { outcomes } of [asked, later]) expect(outcomes[0]?.text).toContain("there is a fault");
  expect(tookMs(asked)).toBeLessThan(1_000);
});

test("an executor that failed before a model was parked again says nothing about its next load", () => {
  const scene = parked(["m"]);
  scene.fails.add(0);
  const asked = [scene.ask("m")];
  scene.cluster.run(seconds(1));
  scene.until("m", "parked");
  scene.cluster.run(seconds(2));
  scene.fails.clear();
  scene.fails.add(1);
  scene.loading = millis(100);
  asked.push(scene.ask("m"));
  scene.cluster.run(seconds(3));
  expect([scene.state("m"), ...statuses(asked)]).toEqual(["served", "ok"]);
});

test("a model that isn't loaded within its cold start: its requests are UNAVAILABLE then, and it is parked again", () => {
  const scene = parked(["m"]);
  scene.loading = seconds(60);
  const asked = scene.ask("m");
  scene.cluster.run(seconds(6));
  expect(statuses([asked])).toEqual(["TUTTI_UNAVAILABLE"]);
  expect(asked.outcomes[0]!.text).toContain("no executor had loaded it 5 s later");
  expect(tookMs(asked)).toBeLessThan(SHAPE.sloMs + COLD_START / 1e3 + 50);
  expect(scene.state("m")).toBe("waking");
  scene.until("m", "parked");
});

test("a parked model's memory is free for another one, and it waits for room when that is full", () => {
  const scene = new Scene({ memoryBytesMax: 4e9, gpus: 1, executors: 1 });
  scene.model("a", { memory: 3e9 });
  scene.planner();
  scene.until("a", "parked");
  scene.model("b", { memory: 3e9 });
  scene.cluster.run(seconds(5));
  expect([scene.state("a"), scene.state("b")]).toEqual(["parked", "served"]);
  const refused = scene.ask("a");
  const served = scene.load(["b"], seconds(6));
  scene.cluster.run(millis(200));
  expect([statuses([refused]), statuses(served)]).toEqual([["TUTTI_UNAVAILABLE"], ["ok"]]);
  scene.until("b", "parked");
  scene.cluster.run(seconds(1));
  const waiting = scene.ask("a");
  scene.cluster.run(seconds(3));
  expect([scene.state("a"), ...statuses([waiting])]).toEqual(["served", "ok"]);
});

test("an executor that comes while a model is parked or wakes serves it like the others", () => {
  const scene = parked(["m"]);
  scene.cluster.startExecutor("executor-late", [gpuId(7)]);
  scene.cluster.run(seconds(2));
  expect(scene.copies("m")).toBe(0);
  const waiting = scene.ask("m");
  scene.cluster.run(seconds(3));
  expect([scene.copies("m"), ...statuses([waiting])]).toEqual([3, "ok"]);
});

/** A pipeline of two stages, the second of which has two requests. */
function duo(): NonNullable<VirtualClusterOptions["pipelines"]> {
  const steps = inlineSteps({
    "./duo.ts#toFirst": () => ({ requests: scalar(1) }),
    "./duo.ts#toSecond": () => [scalar(2), scalar(3)],
    "./duo.ts#toAnswer": () => scalar(4, "y"),
  });
  const before = ["./duo.ts#toFirst", "./duo.ts#toSecond"] as const;
  const duo = { name: "duo", slo: "200ms", models: ["first", "second"], before, finish: "./duo.ts#toAnswer" } as const;
  return { specs: [findAndRead(duo)], steps };
}

test("the models of a pipeline wake together, and the whole has the longest cold start", () => {
  const scene = parked(["first", "second"], { pipelines: duo() });
  const asked = scene.cluster.ask("duo", { sloMs: 200 });
  scene.cluster.run(millis(300));
  expect([scene.state("first"), scene.state("second")]).toEqual(["waking", "waking"]);
  scene.cluster.run(seconds(2));
  expect(statuses([asked])).toEqual(["ok"]);
  expect(tookMs(asked)).toBeLessThan(1_600); // each executor loads and warms up one after the other
});

test("the model of a later stage stays while that of an earlier one is loaded", () => {
  const scene = new Scene({ pipelines: duo() });
  for (const name of ["first", "second"]) scene.model(name);
  scene.planner();
  scene.cluster.run(seconds(4));
  scene.load(["second"], seconds(16), seconds(1));
  expect([scene.state("first"), scene.state("second")]).toEqual(["parked", "served"]);
  scene.cluster.run(millis(9_000)); // The second one's idle time is nearly over.
  scene.loading = seconds(4);
  const asked = scene.cluster.ask("duo", { sloMs: 200 });
  expect(scene.state("second")).toBe("served");
  scene.cluster.run(seconds(6));
  expect(statuses([asked])).toEqual(["ok"]);
});

test("a job wakes a parked model, and jobs keep it loaded", () => {
  const scene = parked(["m"]);
  const ask = (): Asked => scene.cluster.ask("m", { isJob: true, sloMs: 600_000 });
  const first = ask();
  scene.until("m", "served", seconds(5));
  scene.cluster.run(seconds(2));
  expect(statuses([first])).toEqual(["ok"]);
  const asked: Asked[] = [];
  for (let s = 0; s < 2 * (IDLE / 1e6); s++) {
    asked.push(ask());
    scene.cluster.run(seconds(1));
    expect(scene.state("m")).toBe("served");
  }
  scene.cluster.run(seconds(1));
  expect(statuses(asked)).toEqual(["ok"]);
});
