/** Versions of a model, shares of its requests, ramps and shadows, on whole clusters in virtual time. */
import { RouteRegistry } from "@tutti/client/registries";
import type { EngineBatch } from "@tutti/ports/engine";
import { BUCKET, StatsReported, faultKeys, percentOf, stateOf, subjectsOf } from "@tutti/protocol";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import { FrameReader, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const RATE = 400;
const SLO_MS = 50;

/** A model with two versions that echo their input; where the second is wrong, it adds ten. */
class Scene {
  readonly cluster: VirtualCluster;
  readonly routes: RouteRegistry;
  readonly figures = new Map<string, Record<string, number>>();

  constructor(
    options: VirtualClusterOptions & { readonly isWrong?: (value: number) => boolean; secondMs?: number } = {},
  ) {
    const { isWrong, secondMs = 4, ...rest } = options;
    this.cluster = new VirtualCluster({
      ...{ gpus: 2, ...rest },
      ...(isWrong !== undefined && {
        wrapEngine: (engine) => ({
          ...{ type: engine.type, load: engine.load.bind(engine), unload: engine.unload.bind(engine) },
          stop: engine.stop.bind(engine),
          run: (batch: EngineBatch, done) => {
            const values = new Float32Array(batch.inputs[0]!.data.slice().buffer);
            engine.run(batch, (outcome) => {
              if (outcome.kind === "ran" && batch.model === "m/2") {
                const data = outcome.outputs[0]!.data;
                const out = new DataView(data.buffer, data.byteOffset, data.byteLength);
                values.forEach((value, i) => isWrong(value) && out.setFloat32(4 * i, value + 10, true));
              }
              done(outcome);
            });
          },
        }),
      }),
    });
    this.cluster.addModel({ name: "m", alphaMs: 1, betaMs: 4, sloMs: SLO_MS });
    this.cluster.addModel({ name: "m/2", alphaMs: 1, betaMs: secondMs, sloMs: SLO_MS });
    this.routes = new RouteRegistry(this.cluster.store, () => this.cluster.clock.now());
    const reader = new FrameReader().on(StatsReported, ({ role, perThread = [] }) => {
      for (const { name, figures } of perThread) this.figures.set(`${role}/${name}`, figures);
    });
    const listener = this.cluster.network.connect({ name: "listener" });
    listener.subscribe(subjectsOf("main").stats("*"), ({ payload }) => void reader.read(payload));
    this.cluster.run(seconds(3));
  }

  /** Runs the store until a change of a route is made. */
  async change<T>(call: Promise<T>): Promise<T> {
    let outcome: { value: T } | { error: unknown } | undefined;
    call.then(
      (value) => (outcome = { value }),
      (error: unknown) => (outcome = { error }),
    );
    for (let turn = 0; outcome === undefined && turn < 2_000; turn++) {
      this.cluster.run(micros(100));
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (outcome === undefined) throw new Error("the store did not answer");
    if ("error" in outcome) throw outcome.error;
    this.cluster.run(millis(1)); // every ingress has heard of it
    return outcome.value;
  }
  share(percent: number): Promise<unknown> {
    return this.change(this.routes.setShare("m", { version: "2", percent }));
  }
  async percent(): Promise<number> {
    return percentOf(stateOf((await this.change(this.routes.get("m")))!), "2");
  }
  load(duration: Micros, rate = RATE): Asked[] {
    return this.cluster.load("m", { rate, duration, sloMs: SLO_MS });
  }
}

const versionsOf = (asked: readonly Asked[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { outcomes } of asked) {
    const version = outcomes[0]?.version ?? outcomes[0]?.status ?? "none";
    counts[version] = (counts[version] ?? 0) + 1;
  }
  return counts;
};
/** Each request is answered exactly once, in time, with its own output (T1, T2). */
function expectAllGood(asked: readonly Asked[]): void {
  const bad = asked.filter(
    ({ outcomes, value, deadline }) =>
      outcomes.length !== 1 ||
      outcomes[0]!.status !== "ok" ||
      outcomes[0]!.value !== value ||
      outcomes[0]!.at > deadline,
  );
  expect(bad.map(({ outcomes }) => outcomes)).toEqual([]);
}

test("without a route everything goes to the model itself, and whoever names a version gets it", () => {
  const { cluster } = new Scene();
  const asked = [
    cluster.ask("m", { sloMs: 100 }),
    cluster.ask("m", { sloMs: 100, version: "1" }),
    cluster.ask("m", { sloMs: 100, version: "2" }),
    cluster.ask("m/2", { sloMs: 100 }),
    cluster.ask("m/1", { sloMs: 100 }),
    cluster.ask("m/2", { sloMs: 100, version: "2" }),
  ];
  const refused = [
    cluster.ask("m", { version: "3" }),
    cluster.ask("m/3", {}),
    cluster.ask("m/2", { version: "1" }),
    cluster.ask("m/2/3", {}),
    cluster.ask("other/2", {}),
  ];
  cluster.run(millis(200));
  expectAllGood(asked);
  expect(asked.map(({ outcomes }) => outcomes[0]!.version)).toEqual([undefined, "1", "2", "2", "1", "2"]);
  expect(refused.map(({ outcomes }) => outcomes.map(({ status }) => status).join())).toEqual([
    ...["TUTTI_NOT_FOUND", "TUTTI_NOT_FOUND", "TUTTI_INVALID_INPUT", "TUTTI_INVALID_INPUT", "TUTTI_NOT_FOUND"],
  ]);
  expect(refused[0]!.outcomes[0]!.text).toContain('"m" is served in version 1, 2, not 3');
});

test("a rollout from 0 to 100 % and back under load refuses nothing, loses nothing and answers nothing twice, while an ingress and a batcher are replaced in its midst", async () => {
  const scene = new Scene({ gpus: 3, executors: 3, batchers: 2 });
  const { cluster } = scene;
  cluster.startIngress("ingress-2");
  cluster.run(seconds(2));
  const asked: Asked[] = [];
  const figures: string[] = [];
  for (const percent of [10, 50, 100, 100, 30, 0]) {
    if (percent === 50) cluster.drain("batcher-0");
    if (percent === 100) cluster.startBatcher(`batcher-${asked.length}`);
    if (percent === 30) {
      cluster.startIngress("ingress-3");
      cluster.run(seconds(2));
      cluster.drain("ingress");
    }
    await scene.share(percent);
    const some = scene.load(seconds(1));
    cluster.run(millis(100));
    const counts = versionsOf(some);
    figures.push(`${percent} %: ${JSON.stringify(counts)}`);
    const got = (counts["2"] ?? 0) / some.length;
    // Four standard deviations of a share of some 400.
    expect(Math.abs(got - percent / 100)).toBeLessThanOrEqual(
      4 * Math.sqrt(((percent / 100) * (1 - percent / 100)) / some.length),
    );
    asked.push(...some);
  }
  console.log(`rollout under ${RATE} r/s, ${asked.length} requests: ${figures.join(", ")}`);
  expectAllGood(asked);
});

test("the same id goes to the same version, also when it is sent again, and a growing share moves ids one way", async () => {
  const scene = new Scene({ gpus: 4 });
  const { cluster } = scene;
  cluster.startIngress("ingress-2");
  cluster.run(seconds(1));
  const ids = Array.from({ length: 60 }, (_, i) => `order-${i}`);
  const ask = (): (string | undefined)[] => {
    const asked = ids.map((id) => {
      const one = cluster.ask("m", { sloMs: 100, id });
      cluster.run(millis(5));
      return one;
    });
    cluster.run(millis(200));
    expectAllGood(asked);
    return asked.map(({ outcomes }) => outcomes[0]!.version);
  };
  let before: (string | undefined)[] = ids.map(() => "1");
  for (const percent of [20, 50, 80]) {
    await scene.share(percent);
    const now = ask();
    expect(ask()).toEqual(now);
    expect(now.some((version) => version === "1") && now.some((version) => version === "2")).toBe(true);
    before.forEach((version, i) => version === "2" && expect(now[i]).toBe("2"));
    before = now;
  }
});

test("a version that is quarantined loses its share to the default at once, and for good", async () => {
  const scene = new Scene();
  const { cluster } = scene;
  cluster.startPlanner("planner", { epoch: seconds(30) });
  await scene.share(50);
  cluster.run(seconds(2));
  const quarantined = { name: "m/2", number: 2, strikes: [], quarantined: "it ended its executor" };
  cluster.store.put(BUCKET.profiles, faultKeys.model(2), toJson(quarantined), () => undefined);
  cluster.run(millis(1));
  const asked = scene.load(millis(500));
  cluster.run(millis(100));
  expectAllGood(asked);
  expect(versionsOf(asked)).toEqual({ "1": asked.length });
  cluster.run(seconds(2));
  const route = (await scene.change(scene.routes.get("m")))!;
  expect(stateOf(route)).toMatchObject({
    by: "planner",
    slices: [],
    why: "version 2 is quarantined: its 50 % go to the default",
  });
});

test("a ramp takes its steps by itself, also when the planner is replaced, and is done at its goal", async () => {
  const scene = new Scene();
  const { cluster } = scene;
  cluster.startPlanner("planner", { epoch: seconds(30) });
  cluster.run(seconds(4));
  const ramp = { over: seconds(24), badMax: 0.01, mismatchMax: 0 };
  await scene.change(scene.routes.setShare("m", { version: "2", percent: 100, ramp }));
  const asked: Asked[] = [];
  const shares = new Set<number>();
  for (let second = 0; second < 36; second++) {
    if (second === 10) cluster.kill("planner");
    if (second === 12) cluster.startPlanner("planner-2", { epoch: seconds(30) });
    asked.push(...scene.load(seconds(1), 100));
    shares.add(await scene.percent());
  }
  cluster.run(millis(100));
  expectAllGood(asked);
  expect([...shares]).toEqual([1, 2, 5, 10, 25, 50, 75, 100]);
  const route = (await scene.change(scene.routes.get("m")))!;
  expect(stateOf(route).ramp).toBeUndefined();
  expect(route.states.map(({ why }) => why)).toEqual(["nothing is shared", "100 % to version 2, reached step by step"]);
  await scene.change(scene.routes.back("m"));
  expect(await scene.percent()).toBe(0);
});

test("a ramp whose version is too slow for the SLO is rolled back by itself, with the reason in its history", async () => {
  // In isolation the version meets the SLO; its profile lies, as the model's runs take ten times as long.
  const scene = new Scene({ secondMs: 40 });
  const { cluster } = scene;
  cluster.startPlanner("planner", { epoch: seconds(30) });
  cluster.run(seconds(4));
  const ramp = { over: seconds(40), badMax: 0.01, mismatchMax: 0 };
  await scene.change(scene.routes.setShare("m", { version: "2", percent: 100, ramp }));
  for (let second = 0; second < 20 && (await scene.percent()) > 0; second++) scene.load(seconds(1));
  const route = (await scene.change(scene.routes.get("m")))!;
  expect(stateOf(route)).toMatchObject({ by: "planner", slices: [] });
  expect(stateOf(route).why).toMatch(
    /^version 2 was rolled back at \d+ %: \d+ of \d+ requests at \d+ % were refused or late/,
  );
  const after = scene.load(seconds(1));
  cluster.run(millis(100));
  expectAllGood(after);
});

test("a shadow runs copies on idle time: nobody is sent its answers, and the one that differs is found", async () => {
  const scene = new Scene({ isWrong: (value) => value % 50 === 0 });
  const { cluster } = scene;
  cluster.startPlanner("planner", { epoch: seconds(30) });
  await scene.change(scene.routes.setShadow("m", { version: "2", percent: 100 }));
  const asked = scene.load(seconds(8), 60);
  cluster.run(seconds(3));
  expectAllGood(asked);
  expect(versionsOf(asked)).toEqual({ "1": asked.length });
  const figures = scene.figures.get("executor/m/2")!;
  expect(figures["shadowCompared"]).toBeGreaterThan(100);
  expect(figures["shadowDiffer"]).toBeGreaterThan(0);
  expect(figures["shadowDiffer"]! / figures["shadowCompared"]!).toBeLessThan(0.05);
  expect(figures["shadowDifferenceMost"]).toBe(10);
  // Shadow requests appear in no figures of requests.
  expect(scene.figures.get("ingress/m/2")?.["offered"] ?? 0).toBe(0);
  // The same wrong answers stop a growing share of the version only where that was asked for.
  const ramp = { over: seconds(40), badMax: 0.01, mismatchMax: 0 };
  await scene.change(scene.routes.setShare("m", { version: "2", percent: 50, ramp: { ...ramp, mismatchMax: 1 } }));
  for (let second = 0; second < 20; second++) scene.load(seconds(1), 60);
  expect(await scene.percent()).toBeGreaterThan(2);
  await scene.change(scene.routes.setShare("m", { version: "2", percent: 0 }));
  await scene.change(scene.routes.setShare("m", { version: "2", percent: 100, ramp }));
  for (let second = 0; second < 20 && (await scene.percent()) > 0; second++) scene.load(seconds(1), 60);
  expect(stateOf((await scene.change(scene.routes.get("m")))!).why).toMatch(/of \d+ compared answers differ/);
});

test("a shadow of everything takes nothing from requests where accelerators are full", async () => {
  const goodAt = async (isShadowed: boolean): Promise<{ good: number; compared: number }> => {
    const scene = new Scene({ gpus: 1, seed: 7 });
    if (isShadowed) await scene.change(scene.routes.setShadow("m", { version: "2", percent: 100 }));
    else await scene.change(scene.routes.get("m"));
    const asked = scene.load(seconds(6), 650);
    scene.cluster.run(millis(200));
    const good = asked.filter(({ outcomes }) => outcomes[0]?.status === "ok").length / asked.length;
    return { good, compared: scene.figures.get("executor/m/2")?.["shadowCompared"] ?? 0 };
  };
  const [without, shadowed] = [await goodAt(false), await goodAt(true)];
  console.log(
    `650 r/s on one accelerator: good ${without.good.toFixed(4)}, with a shadow ${shadowed.good.toFixed(4)} (${shadowed.compared} compared)`,
  );
  expect(shadowed.good).toBeGreaterThan(without.good - 0.005);
});
