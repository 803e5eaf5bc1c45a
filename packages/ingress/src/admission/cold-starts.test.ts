import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { BUCKET, type MessageType, ModelsWanted, PLACEMENT_KEY, type ParkedModel } from "@tutti/protocol";
import { VirtualClock } from "@tutti/ports/clock";
import { type Micros, after, instant, millis, seconds, threadId } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import type { ActorRuntime, CatalogModel } from "@tutti/actors/runtime";
import { ColdStarts } from "./cold-starts.ts";
import type { PendingRequest } from "../requests/pending-request.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const model = (number: number, coldStart?: Micros): CatalogModel => {
  const scaleToZero = coldStart !== undefined && { scaleToZero: { idle: seconds(60), coldStart } };
  return { spec: { name: `m${number}`, number, ...scaleToZero }, status: undefined, lease: undefined } as CatalogModel;
};
const [A, B, KEPT] = [model(1, seconds(30)), model(2, seconds(5)), model(3)];
const held = (of: CatalogModel, fields: Partial<PendingRequest> = {}): PendingRequest =>
  pendingRequest({ model: of, thread: threadId(of.spec.number, 0), ...fields });

function scene() {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const store = new InMemoryStore({ deliver: (run) => run() });
  const pending: PendingRequest[] = [];
  const staged: CatalogModel[] = [];
  const told: (readonly number[])[] = [];
  const broadcast = (role: string, type: MessageType<unknown>, { numbers }: ModelsWanted): void => {
    expect([role, type]).toEqual(["planner", ModelsWanted]);
    told.push(numbers);
  };
  const runtime = { log: noTelemetry.log, broadcast } as unknown as ActorRuntime;
  const forEach = (visit: (held: PendingRequest) => void): void => pending.forEach((one) => visit(one));
  const coldStarts = new ColdStarts({ runtime, store, clock, pending: { forEach }, staged: () => staged });
  let epoch = 0;
  const place = (numbers: readonly number[], served: readonly number[]): void => {
    const parked: ParkedModel[] = numbers.map((number) => ({ number, since: clock.now() }));
    const models = served.map((number) => ({ number, subCluster: "main" }));
    const placement = { epoch: ++epoch, madeAt: clock.now(), models, gpus: [], parked };
    store.put(BUCKET.plan, PLACEMENT_KEY, toJson(placement), () => undefined);
  };
  const park = (...numbers: number[]): void => place(numbers, []);
  /** They are marked, and served as before. */
  const mark = (...numbers: number[]): void => place(numbers, numbers);
  const run = (duration: Micros): void => clock.advanceTo(after(clock.now(), duration));
  coldStarts.open(() => undefined);
  /** Models that the planner was told of since the last call. */
  const look = (): (readonly number[])[] => told.splice(0);
  return { coldStarts, pending, staged, park, mark, run, look };
}

test("a request for a parked model has its cold start, any other none", () => {
  const { coldStarts, park } = scene();
  expect(coldStarts.timeOf(A)).toBe(0);
  park(1, 3);
  expect([A, B, KEPT].map((one) => coldStarts.timeOf(one))).toEqual([seconds(30), 0, 0]);
  park();
  expect(coldStarts.timeOf(A)).toBe(0);
});

test("the planner is told of the first request at once, and again every second while requests wait", () => {
  const { coldStarts, pending, park, run, look } = scene();
  park(1, 2);
  for (let i = 0; i < 3; i++) coldStarts.want(A);
  coldStarts.want(B);
  expect(look()).toEqual([[1], [2]]);
  pending.push(held(A), held(A));
  run(millis(2_500));
  expect(look()).toEqual([[1], [1]]);
  coldStarts.want(A);
  expect(look()).toEqual([]);
  pending.length = 0;
  run(seconds(5));
  expect(look()).toEqual([]);
  coldStarts.want(A);
  expect(look()).toEqual([[1]]);
});

test("the planner is told at once of requests that were there before their model was parked, and of no warm-up request", () => {
  const { pending, park, run, look } = scene();
  pending.push(held(A), held(KEPT), held(B, { onSettled: () => undefined }));
  run(seconds(3));
  expect(look()).toEqual([]);
  park(1, 2);
  expect(look()).toEqual([[1]]);
});

test("the planner is told of the models of pipelines under way, so that those of later stages stay", () => {
  const { coldStarts, staged, mark, run, look } = scene();
  for (const one of [A, KEPT]) coldStarts.want(one);
  expect(look()).toEqual([[1]]);
  run(seconds(2));
  staged.push(A, A, B, KEPT);
  run(seconds(2));
  expect(look()).toEqual([]);
  mark(2);
  run(seconds(1));
  expect(look()).toEqual([[2], [2]]);
});

test("a request that was given up while its model is parked is UNAVAILABLE; once the model is there it is not", () => {
  const { coldStarts, park, mark } = scene();
  park(1);
  const cold = held(A, { coldStart: seconds(30) });
  expect(coldStarts.failure(cold)).toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: true });
  expect(coldStarts.failure(cold)?.message).toContain('"m1" was parked, and no executor had loaded it 30 s later');
  expect(coldStarts.failure(held(A))).toBeUndefined();
  mark(1);
  expect(coldStarts.failure(cold)).toBeUndefined();
  park();
  expect(coldStarts.failure(cold)).toBeUndefined();
});

test("the cold start is part of the deadline, and of every step of costs", () => {
  const arrivedAt = instant(1_000_000);
  const request = pendingRequest({ slo: millis(50), deadline: after(arrivedAt, millis(50)) });
  expect(request.timeText).toBe("50 ms");
  request.waitsFor(seconds(5));
  expect(request.timeText).toBe("5.05 s (its cold start included)");
  expect([request.deadline, request.lastDeadline]).toEqual([6_050_000, 6_050_000]);
  request.costs = [
    { after: millis(50), cost: 1 },
    { after: millis(80), cost: 2 },
  ];
  expect([request.lastDeadline, request.lastSlo]).toEqual([6_080_000, millis(80)]);
});
