import type { DispatchedBatch } from "@tutti/scheduling";
import { type Instant, Prng, instant, threadId } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { expect, test } from "vitest";
import { OWN_APP } from "../runtime/own-request.ts";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import type { QueuedRequest } from "./dispatcher.ts";
import { SampleSelector } from "./sample-selector.ts";

const THREAD = threadId(3, 0);
const AT = instant(1_000_000_000);
const at = (ms: number): Instant => (AT + Math.round(1_000 * ms)) as Instant;

let seq = 0;
const request = (app: number, units = 0): QueuedRequest => ({ ingress: 9, seq: ++seq, app, units }) as QueuedRequest;
const batch = (requests: QueuedRequest[]): DispatchedBatch =>
  ({ batchId: ++seq, thread: THREAD, requests }) as unknown as DispatchedBatch;

/** Dispatches a batch of `members` every 10 ms for a minute. */
function marksOfAMinute(members: () => QueuedRequest[], prepare: (selector: SampleSelector) => void = () => undefined) {
  const selector = new SampleSelector();
  prepare(selector);
  const wanted = [];
  for (let ms = 0; ms < 60_000; ms += 10) {
    const requests = members();
    for (const { app } of requests) selector.arrived(THREAD, app);
    const marked = selector.mark(batch(requests), at(ms));
    if (marked !== undefined) wanted.push(marked);
  }
  return wanted;
}

test("of each application some two requests a second are marked, however many more one of them sends", () => {
  const wanted = marksOfAMinute(() => [request(1), ...Array.from({ length: 20 }, () => request(2))]);
  const single = wanted.filter(({ what }) => what === "some").flatMap(({ rows }) => rows);
  for (const app of [1, 2]) {
    const marked = single.filter((row) => row.app === app).length;
    expect(marked).toBeGreaterThan(80);
    expect(marked).toBeLessThan(160);
  }
});

test("long requests are as likely to be marked as they are to come, wherever they stand in their batch", () => {
  const prng = new Prng(8);
  const isLong = new Set<number>();
  const wanted = marksOfAMinute(() =>
    Array.from({ length: 24 }, (_, i) => {
      const one = request(1);
      if (prng.nextFloat() < (i < 3 ? 0.8 : 0.1)) isLong.add(one.seq);
      return one;
    }),
  );
  const rows = wanted.flatMap((one) => (one.what === "longest" ? [] : one.rows));
  const share = rows.filter((row) => isLong.has(row.seq)).length / rows.length;
  expect(share).toBeGreaterThan(0.1); // 0.19 are long, of the first three of a batch 0.8
  expect(share).toBeLessThan(0.28);
});

test("a whole batch is marked every two and a half seconds, of one with hints its largest member alone, of a larger one without hints none", () => {
  const whole = (members: () => QueuedRequest[]) => marksOfAMinute(members).filter(({ what }) => what !== "some");
  const plain = whole(() => Array.from({ length: 8 }, () => request(1)));
  expect(plain).toHaveLength(24);
  expect(new Set(plain.map(({ rows }) => rows.length))).toEqual(new Set([8]));
  const hinted = whole(() => Array.from({ length: 40 }, (_, i) => request(1, 1 + ((i * 7) % 40))));
  expect(hinted).toHaveLength(24);
  expect(new Set(hinted.map(({ rows }) => `${rows.length} of ${rows[0]!.units}`))).toEqual(new Set(["1 of 40"]));
  expect(whole(() => Array.from({ length: 17 }, () => request(1)))).toEqual([]);
  expect(whole(() => [request(1)])).toEqual([]);
});

test("of a static model hardly any is marked, and of requests that an ingress made up none", () => {
  const quiet = marksOfAMinute(
    () => [request(1), request(1)],
    (selector) => selector.setVariation(THREAD, "static"),
  );
  expect(quiet.length).toBeGreaterThan(0);
  expect(quiet.length).toBeLessThan(8);
  expect(marksOfAMinute(() => [request(fnv1a(OWN_APP))])).toEqual([]);
});

test("the profiler is told what arrived, by application and once", () => {
  const selector = new SampleSelector();
  const told: unknown[] = [];
  const runtime = { broadcast: (...args: unknown[]) => void told.push(args[2]) } as unknown as ActorRuntime;
  for (let i = 0; i < 5; i++) selector.arrived(THREAD, i % 2);
  selector.tell(runtime, at(0));
  selector.tell(runtime, at(1_000));
  expect(told).toEqual([
    {
      thread: THREAD,
      apps: [
        { app: 0, count: 3 },
        { app: 1, count: 2 },
      ],
    },
  ]);
});

test("applications beyond the bound are neither counted nor marked, and those that fell silent make room", () => {
  const selector = new SampleSelector();
  let told: { apps: unknown[] } | undefined;
  const runtime = {
    broadcast: (_: unknown, __: unknown, value: never) => void (told = value),
  } as unknown as ActorRuntime;
  for (let app = 0; app < 1_000; app++) selector.arrived(THREAD, app);
  selector.tell(runtime, at(0));
  expect(told!.apps).toHaveLength(256);
  selector.tell(runtime, at(1));
  selector.arrived(THREAD, 999);
  selector.tell(runtime, at(2));
  expect(told!.apps).toEqual([{ app: 999, count: 1 }]);
});
