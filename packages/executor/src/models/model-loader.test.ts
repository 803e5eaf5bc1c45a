import { VirtualClock } from "@tutti/ports/clock";
import type { Engine, LoadOutcome } from "@tutti/ports/engine";
import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { type Micros, after, millis, seconds } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import { ModelLoader, type ModelReport } from "./model-loader.ts";

let clock: VirtualClock;
let store: InMemoryStore;
let reports: ModelReport[];
let log: string[];
let outcome: LoadOutcome;
let loader: ModelLoader;

/** Answers at the end of the turn, and logs the calls. */
class CannedEngine implements Engine {
  readonly type = "canned";
  readonly cold = true;
  readonly load: Engine["load"] = ({ spec }, done) => this.#later(`load ${spec.name}`, () => done(outcome));
  readonly run: Engine["run"] = ({ bucket, batchSize }, done) =>
    this.#later(`run ${bucket}×${batchSize}`, () =>
      done({ kind: "ran", run: millis(batchSize * 100), outputs: [], failedRows: [] }),
    );
  readonly unload: Engine["unload"] = (name, done) => this.#later(`unload ${name}`, done);
  readonly stop: Engine["stop"] = (done) => done();
  #later(what: string, done: () => void): void {
    log.push(what);
    clock.alarm(done).set(after(clock.now(), millis(1)));
  }
}

beforeEach(() => {
  clock = new VirtualClock();
  store = new InMemoryStore({ deliver: (run) => clock.alarm(run).set(after(clock.now(), millis(1))) });
  reports = [];
  log = [];
  outcome = { kind: "loaded", memoryBytes: 1 };
  loader = new ModelLoader({
    store,
    clock,
    engines: [new CannedEngine()],
    log: noTelemetry.log,
    samples: { rows: () => [], whenRead: (_, next) => next() },
    report: (report) => reports.push(report),
    onBusy: () => undefined,
  });
});
const pass = (time: Micros): void => clock.advanceTo(after(clock.now(), time));
const spec: ModelSpec = {
  name: "mlp",
  number: 7,
  version: "1",
  engine: "onnx",
  slo: millis(30),
  batchSizeMax: 6,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", "W"] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", "W"] }],
  constants: [],
  axes: { W: { mode: "bucket", sizes: [2, 4], padValue: 0 } },
  buckets: [{ W: 2 }, { W: 4 }],
};
const model = (state?: ModelStatus["state"], changes: Partial<ModelSpec> = {}): CatalogModel => ({
  spec: { ...spec, ...changes },
  status: state && {
    name: "mlp",
    number: 7,
    version: "1",
    state,
    reason: "",
    profiles: [],
    means: [],
    executorTypes: [],
  },
  lease: undefined,
});

test("a cold engine runs every bucket once at every batch size before a ready model counts as loaded", () => {
  loader.want(model("ready"));
  expect(loader.get("mlp")).toBeUndefined();
  pass(seconds(1));
  const runs = ["run 0×1", "run 1×1", "run 0×2", "run 1×2", "run 0×4", "run 1×4", "run 0×6", "run 1×6"];
  expect(log).toEqual(["load mlp", ...runs]);
  expect([loader.get("mlp")?.spec.name, reports.map(({ state }) => state)]).toEqual(["mlp", ["loaded"]]);
});

test("a load waits for its model's samples, and gives them to the engine row by row", () => {
  const rows = [1, 2].map((value) => new Uint8Array(Float32Array.of(value, value).buffer));
  const given: unknown[] = [];
  const engine = new CannedEngine();
  let next: (() => void) | undefined;
  const sampled = new ModelLoader({
    ...{ store, clock, log: noTelemetry.log, report: () => undefined, onBusy: () => undefined },
    engines: [{ ...engine, load: (wanted, done) => (given.push(wanted.samples), engine.load(wanted, done)) }],
    samples: { rows: (_, bucket) => (bucket === 0 ? rows : []), whenRead: (_, then) => void (next = then) },
  });
  store.files.put("o", new Uint8Array(1), () => undefined);
  pass(seconds(1));
  sampled.want(model(undefined, { file: { object: "o", sha256: "s", bytes: 1 } }));
  pass(seconds(1));
  expect(given).toEqual([]);
  next!();
  const inputs = rows.map((data) => [{ name: "x", type: "FP32", dims: [1, 2], data }]);
  expect(given).toEqual([inputs]);
});

test("warming up ends when it has taken its time, and one that nobody has measured is left to that", () => {
  loader.want(model("ready", { batchSizeMax: 64 }));
  pass(seconds(1));
  expect(log.at(-1)).toBe("run 1×8"); // 3 s
  log = [];
  loader.want(model("profiling", { name: "new", number: 8 }));
  pass(seconds(1));
  expect(log).toEqual(["load new"]);
});

test("a load that failed is reported as often as one that did not, and tried again once the model serves elsewhere", () => {
  outcome = { kind: "failed", reason: "no such operator" };
  loader.want(model("profiling"));
  pass(millis(5));
  expect(loader.reports()).toMatchObject([{ model: "mlp", state: "failed", reason: "no such operator" }]);
  pass(seconds(5));
  loader.retry();
  expect(log).toEqual(["load mlp"]);
  loader.want(model("ready"));
  loader.retry();
  pass(millis(5));
  expect(log).toEqual(["load mlp", "load mlp"]);
  loader.retry(); // twice the time now
  pass(millis(1_500));
  loader.retry();
  expect(log).toHaveLength(2);
  outcome = { kind: "loaded", memoryBytes: 1 };
  pass(seconds(1));
  loader.retry();
  pass(seconds(1));
  expect(loader.get("mlp")).toBeDefined();
  expect(loader.reports()).toMatchObject([{ state: "loaded" }]);
});

test("a file that can't be fetched is fetched again, and the model is not called bad for it", () => {
  const file = { object: "sha256-1", sha256: "1", bytes: 3 };
  store.available = false;
  loader.want(model(undefined, { file }));
  pass(millis(5));
  expect([reports, loader.reports(), log]).toEqual([[], [], []]);
  store.available = true;
  store.files.put("sha256-1", Uint8Array.of(1, 2, 3), () => undefined);
  pass(seconds(2));
  loader.retry();
  pass(millis(10));
  expect(loader.get("mlp")).toBeDefined();
});

test("what is dropped while it loads is not kept, and what is wanted again before it was dropped is", () => {
  loader.want(model("profiling"));
  loader.drop("mlp");
  pass(millis(10));
  expect([log, loader.get("mlp")]).toEqual([["load mlp", "unload mlp"], undefined]);
  loader.want(model("profiling"));
  pass(millis(10));
  loader.want(model("profiling", { name: "other", number: 9 })); // holds the next ones up
  loader.drop("mlp");
  loader.want(model("profiling"));
  pass(millis(10));
  expect(loader.get("mlp")).toBeDefined();
});

test("a model that changes in the catalog while it is loaded is loaded once", () => {
  loader.want(model("profiling"));
  const changed = model("refused");
  loader.want(changed);
  pass(millis(10));
  expect([log, reports.length]).toEqual([["load mlp"], 1]);
  expect(loader.get("mlp")).toBe(changed);
  // Another version is loaded after it.
  loader.want(model("profiling", { version: "2" }));
  loader.want(model("profiling", { version: "3" }));
  pass(millis(10));
  expect([log.length, loader.get("mlp")?.spec.version]).toEqual([3, "3"]);
});

test("a model whose load is retried is not queued once more", () => {
  outcome = { kind: "failed", reason: "no such operator" };
  loader.want(model("ready"));
  pass(seconds(5));
  outcome = { kind: "loaded", memoryBytes: 1 };
  for (let i = 0; i < 2; i++) loader.retry();
  pass(seconds(1));
  expect([log.filter((call) => call === "load mlp").length, loader.get("mlp") === undefined]).toEqual([2, false]);
});
