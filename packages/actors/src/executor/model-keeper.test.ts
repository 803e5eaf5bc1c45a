import { VirtualClock } from "@tutti/clock";
import type { Engine, LoadOutcome } from "@tutti/engine";
import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/store";
import { noTelemetry } from "@tutti/telemetry";
import { type Micros, after, millis, seconds } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import type { CatalogModel } from "../catalog.ts";
import { ModelKeeper, type ModelReport } from "./model-keeper.ts";

let clock: VirtualClock;
let store: InMemoryStore;
let reports: ModelReport[];
let log: string[];
let outcome: LoadOutcome;
let keeper: ModelKeeper;

/** Answers at the end of the turn, and writes down what it is asked. */
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
  keeper = new ModelKeeper({
    store,
    clock,
    engines: [new CannedEngine()],
    log: noTelemetry.log,
    samplesOf: () => [],
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
  keeper.want(model("ready"));
  expect(keeper.get("mlp")).toBeUndefined();
  pass(seconds(1));
  const runs = ["run 0×1", "run 1×1", "run 0×2", "run 1×2", "run 0×4", "run 1×4", "run 0×6", "run 1×6"];
  expect(log).toEqual(["load mlp", ...runs]);
  expect([keeper.get("mlp")?.spec.name, reports.map(({ state }) => state)]).toEqual(["mlp", ["loaded"]]);
});

test("warming up ends when it has taken its time, and one that nobody has measured is left to that", () => {
  keeper.want(model("ready", { batchSizeMax: 64 }));
  pass(seconds(1));
  expect(log.at(-1)).toBe("run 1×8"); // 3 s
  log = [];
  keeper.want(model("profiling", { name: "new", number: 8 }));
  pass(seconds(1));
  expect(log).toEqual(["load new"]);
});

test("a load that failed is reported as often as one that did not, and tried again once the model serves elsewhere", () => {
  outcome = { kind: "failed", reason: "no such operator" };
  keeper.want(model("profiling"));
  pass(millis(5));
  expect(keeper.reports()).toMatchObject([{ model: "mlp", state: "failed", reason: "no such operator" }]);
  pass(seconds(5));
  keeper.retry();
  expect(log).toEqual(["load mlp"]);
  keeper.want(model("ready"));
  keeper.retry();
  pass(millis(5));
  expect(log).toEqual(["load mlp", "load mlp"]);
  keeper.retry(); // twice the time now
  pass(millis(1_500));
  keeper.retry();
  expect(log).toHaveLength(2);
  outcome = { kind: "loaded", memoryBytes: 1 };
  pass(seconds(1));
  keeper.retry();
  pass(seconds(1));
  expect(keeper.get("mlp")).toBeDefined();
  expect(keeper.reports()).toMatchObject([{ state: "loaded" }]);
});

test("a file that can't be fetched is fetched again, and the model is not called bad for it", () => {
  const file = { object: "sha256-1", sha256: "1", bytes: 3 };
  store.available = false;
  keeper.want(model(undefined, { file }));
  pass(millis(5));
  expect([reports, keeper.reports(), log]).toEqual([[], [], []]);
  store.available = true;
  store.files.put("sha256-1", Uint8Array.of(1, 2, 3), () => undefined);
  pass(seconds(2));
  keeper.retry();
  pass(millis(10));
  expect(keeper.get("mlp")).toBeDefined();
});

test("what is dropped while it loads is not kept, and what is wanted again before it was dropped is", () => {
  keeper.want(model("profiling"));
  keeper.drop("mlp");
  pass(millis(10));
  expect([log, keeper.get("mlp")]).toEqual([["load mlp", "unload mlp"], undefined]);
  keeper.want(model("profiling"));
  pass(millis(10));
  keeper.want(model("profiling", { name: "other", number: 9 })); // holds the next ones up
  keeper.drop("mlp");
  keeper.want(model("profiling"));
  pass(millis(10));
  expect(keeper.get("mlp")).toBeDefined();
});
