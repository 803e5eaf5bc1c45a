import type { RunOutcome } from "@tutti/ports/engine";
import {
  BUCKET,
  type ModelSpec,
  type ModelStatus,
  type Route,
  type RouteShadow,
  routeKeys,
  threadOf,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { actorKey, instant, micros } from "@tutti/units";
import { encodeTensors, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { Run } from "../batches/run.ts";
import type { ShelfRow } from "./sample-buffer.ts";
import { ShadowRuns } from "./shadow-runs.ts";

const spec = (name: string, number: number, version: string, width = 1): ModelSpec => ({
  ...{ name, number, version, engine: "emulated", slo: micros(1e5), batchSizeMax: 8, patience: 1 },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", width] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
  ...{ constants: [], axes: {}, buckets: [{}] },
});
const FIRST = spec("m", 1, "1");
const SECOND = spec("m/2", 2, "2");
const INGRESS = actorKey(9);
const y = (value: number) => ({
  ...({ name: "y", type: "FP32", dims: [1, 1] } as const),
  data: new Uint8Array(Float32Array.of(value).buffer),
});

class Scene {
  readonly shelf: ShelfRow[] = [];
  readonly store = new InMemoryStore();
  readonly shadows: ShadowRuns;
  hasRoom = true;

  constructor(second = SECOND, state: ModelStatus["state"] = "ready") {
    const models = new Map([FIRST, second].map((one) => [one.name, this.#model(one, state)]));
    this.shadows = new ShadowRuns({
      ...{ store: this.store, log: noTelemetry.log, catalog: () => models, isLoaded: () => true },
      now: () => instant(1e9),
      shelve: (row) => this.hasRoom && this.shelf.push(row) > 0,
    });
    this.shadows.open();
  }
  async shadow(shadow: RouteShadow | undefined): Promise<void> {
    const state = { at: instant(1), by: "operator", why: "", default: "1", slices: [], ...(shadow && { shadow }) };
    const route: Route = { name: "m", states: [state] };
    await new Promise((resolve) => this.store.put(BUCKET.plan, routeKeys.model("m"), toJson(route), resolve));
    await new Promise((resolve) => this.store.get(BUCKET.plan, "nothing", resolve));
  }
  /** A batch of the first version, whose answers are all 5. */
  batch(rows: number, bytes = 4): void {
    const run = { model: { spec: FIRST }, batch: { thread: threadOf(FIRST, 0) } } as unknown as Run;
    const seqs = Array.from({ length: rows }, (_, i) => i);
    this.shadows.pulled(
      run,
      INGRESS,
      seqs.map((seq) => ({ seq, row: new Uint8Array(bytes), traceparent: "" })),
    );
    const outputs = encodeTensors([y(5)]);
    this.shadows.answered(run, INGRESS, seqs.map((seq) => ({ seq, outputs, code: 0, text: "" }))); // prettier-ignore
    this.shadows.ended(run);
  }
  runAll(outcome: RunOutcome): void {
    for (const row of this.shelf.splice(0)) row.onOutcome!(outcome, []);
  }
  figures(): Record<string, number> | undefined {
    return this.shadows.perThread()[0]?.figures;
  }
  #model(one: ModelSpec, state: ModelStatus["state"]): CatalogModel {
    return { spec: one, status: { state } as ModelStatus, lease: undefined };
  }
}
const ran = (value: number): RunOutcome => ({ kind: "ran", run: micros(700), outputs: [y(value)], failedRows: [] });

test("the share of requests that is asked for is copied, to the shadow's thread, and compared with what was sent", async () => {
  const scene = new Scene();
  scene.batch(8);
  expect(scene.shelf).toEqual([]);
  await scene.shadow({ version: "2", percent: 25 });
  for (let i = 0; i < 4; i++) scene.batch(8);
  expect(scene.shelf).toHaveLength(8);
  expect(scene.shelf[0]).toMatchObject({ thread: threadOf(SECOND, 0), isSample: false });
  scene.shelf.length = 6;
  scene.runAll(ran(5));
  await scene.shadow({ version: "2", percent: 100, tolerance: 0.1 });
  scene.batch(2);
  scene.runAll(ran(5.4));
  scene.batch(2);
  scene.runAll(ran(7));
  scene.batch(1);
  scene.runAll({ kind: "failed", reason: "it can't", fault: false });
  expect(scene.shadows.perThread()[0]).toMatchObject({ thread: threadOf(SECOND, 0), name: "m/2" });
  expect(scene.figures()).toMatchObject({ shadowCopied: 13, shadowRan: 11, shadowCompared: 11, shadowDiffer: 3 });
  expect(scene.figures()).toMatchObject({ shadowDifferenceMost: 2, shadowRunUs: 7_000, shadowLeft: 0 });
  await scene.shadow(undefined);
  expect(scene.shadows.perThread()).toEqual([]);
});

test("no more than so many rows of running batches are copied, none that is too large, and none for which there is no room", async () => {
  const scene = new Scene();
  await scene.shadow({ version: "2", percent: 100 });
  scene.batch(100);
  expect([scene.shelf.length, scene.figures()!["shadowLeft"]]).toEqual([64, 36]);
  scene.batch(10); // the rows of the ended batch take no room any more
  expect(scene.shelf).toHaveLength(74);
  scene.batch(1, 1_048_577);
  scene.hasRoom = false;
  scene.batch(1);
  expect([scene.shelf.length, scene.figures()!["shadowLeft"]]).toEqual([74, 38]);
});

test("nothing is copied to a version that is not ready, has other inputs, or answers itself", async () => {
  for (const scene of [new Scene(spec("m/2", 2, "2", 3)), new Scene(SECOND, "quarantined")]) {
    await scene.shadow({ version: "2", percent: 100 });
    scene.batch(4);
    expect(scene.shelf).toEqual([]);
  }
  const own = new Scene();
  await own.shadow({ version: "1", percent: 100 });
  own.batch(4);
  expect(own.shelf).toEqual([]);
});
