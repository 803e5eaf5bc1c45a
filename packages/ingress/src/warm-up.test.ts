import type { Delivery } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { HEADER, type ModelSpec } from "@tutti/protocol";
import { actorKey, after, micros, millis, seconds } from "@tutti/units";
import { decodeRequest, formOf } from "@tutti/wire";
import { expect, test } from "vitest";
import { type CatalogModel, OWN_APP } from "@tutti/actors/runtime";
import { WarmUp } from "./warm-up.ts";

const spec = (number: number): ModelSpec =>
  ({
    number,
    name: `m${number}`,
    version: "1",
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 4] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", 4] }],
    buckets: [],
    slo: millis(25),
  }) as unknown as ModelSpec;

const model = (number: number, aloneMs: number): CatalogModel => ({
  spec: { ...spec(number), axes: {}, buckets: [{}] },
  status: { profiles: [[{ batchSize: 1, latency: millis(aloneMs) }]] } as never,
  lease: { batcher: actorKey(5), term: 1 },
});

function warming(gpus: number, time = seconds(2)) {
  const clock = new VirtualClock();
  const sent: Delivery[] = [];
  let warmings = 0;
  const warmUp = new WarmUp({
    clock,
    warmup: { perSecond: 1_000, time },
    gpus: () => gpus,
    send: (request, done) => {
      sent.push(request);
      clock.alarm(done).set(after(clock.now(), millis(1)));
    },
    onWarm: () => warmings++,
  });
  const run = (duration: ReturnType<typeof seconds>): void => clock.advanceBy(duration);
  return { warmUp, sent, run, warmings: () => warmings };
}

test("a model gets its rounds one after another, then the warmup at the rate that its accelerators leave room for", () => {
  const { warmUp, sent, run } = warming(1);
  warmUp.begin(model(1, 1));
  run(millis(45));
  expect(sent.length).toBeGreaterThanOrEqual(40);
  expect(warmUp.warmModels).toBe(0);
  run(seconds(3));
  // 40 % of the 1,000 a second that one accelerator carries, for two seconds.
  expect(sent.length).toBeGreaterThan(40 + 750);
  expect(sent.length).toBeLessThanOrEqual(40 + 800);
  expect(warmUp.warmModels).toBe(1);
});

test("a lease that moves often has one warm-up under way, not one for each move", () => {
  const { warmUp, sent, run } = warming(1);
  for (let term = 1; term <= 50; term++) warmUp.begin({ ...model(1, 1), lease: { batcher: actorKey(5), term } });
  sent.length = 0;
  run(millis(20));
  expect(sent.length).toBeLessThanOrEqual(20);
});

test("a request from outside ends the warmup at once", () => {
  const { warmUp, sent, run, warmings } = warming(8);
  warmUp.begin(model(1, 1));
  run(millis(500));
  const before = sent.length;
  expect(before).toBeGreaterThan(40);
  warmUp.end();
  run(seconds(3));
  expect(sent.length).toBe(before);
  expect(warmUp.warmModels).toBe(1);
  expect(warmings()).toBe(1);
  warmUp.begin(model(2, 1)); // a model that comes later has its rounds, and no warmup
  run(seconds(1));
  expect(sent.length).toBe(before + 40);
  expect(warmUp.warmModels).toBe(2);
});

test("a slow model is not warmed up further, and its rounds end after a tenth of a second of runs", () => {
  const { warmUp, sent, run } = warming(2);
  warmUp.begin(model(1, 30));
  run(seconds(1));
  expect(sent.length).toBe(4);
  expect(warmUp.warmModels).toBe(1);
});

test("models in warmup share its rate, and the same version and term is warmed once", () => {
  const { warmUp, sent, run } = warming(8);
  warmUp.begin(model(1, 1));
  warmUp.begin(model(2, 1));
  warmUp.begin(model(1, 1));
  run(seconds(4));
  expect(sent.length).toBeGreaterThan(80 + 1_900);
  expect(sent.length).toBeLessThanOrEqual(80 + 2_000);
  const ofFirst = sent.filter(({ subject }) => subject.includes(".m1.")).length;
  expect(ofFirst / sent.length).toBeGreaterThan(0.45);
  expect(ofFirst / sent.length).toBeLessThan(0.55);
});

test("own requests are such as publishers send: readable bodies of the declared shapes, and an SLO", () => {
  const { warmUp, sent, run } = warming(1, micros(0));
  warmUp.begin(model(1, 1));
  run(seconds(1));
  const [first] = sent;
  expect(first!.subject).toBe(`infer.m1.${OWN_APP}`);
  expect(first!.header(HEADER.slo)).toMatch(/^\d+us$/);
  const form = formOf(first!.header(HEADER.contentType), first!.payload);
  expect(decodeRequest(form!, first!.payload).inputs[0]).toMatchObject({ name: "x", type: "FP32", dims: [1, 4] });
});
