import { ArrivalsMissed, type MessageType, RequestArrived, RequestWithdrawn } from "@tutti/protocol";
import { type ActorKey, type ThreadId, actorKey, after, instant, micros, millis } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { expect, test } from "vitest";
import type { CatalogModel, ActorRuntime } from "@tutti/actors/runtime";
import { PendingRequests } from "./pending-requests.ts";
import { ArrivalStreams } from "./arrival-streams.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const [OLD, NEW, EXECUTOR] = [actorKey(11), actorKey(22), actorKey(33)];
const THREAD = 64 as ThreadId;

/** An ingress with one request, sent to OLD under term 1. */
function lanes() {
  const sent: string[] = [];
  const alive = new Set<ActorKey>([OLD, NEW, EXECUTOR]);
  const reader = new FrameReader();
  const time = { now: instant(1_000_000) };
  const runtime = {
    reader,
    registry: { get: (key: ActorKey) => (alive.has(key) ? {} : undefined) },
    send: (to: ActorKey, type: MessageType<unknown>) => sent.push(`${type.name} to ${to}`),
  } as unknown as ActorRuntime;
  const pending = new PendingRequests({ requestsMax: 8, bytesMax: 100, appRequestsMax: 8, appBytesMax: 100 });
  const one = new ArrivalStreams({
    runtime,
    pending,
    secret: new Uint8Array(32),
    self: actorKey(1),
    respond: () => micros(0),
    now: () => time.now,
  });
  const times = { deadline: instant(1_000_000), slo: millis(50), arrivedAt: instant(950_000) };
  pending.add(pendingRequest({ thread: THREAD, row: new Uint8Array(1), ...times }), instant(1));
  const [only] = pending.values();
  one.arrive(only!, { batcher: OLD, term: 1 });
  const move = (): void => one.moved({ spec: { number: 1 }, lease: { batcher: NEW, term: 2 } } as CatalogModel);
  /** Messages sent since the last call, introductions apart. */
  const look = (): string[] => sent.splice(0).filter((line) => !line.startsWith("ingress-introduced"));
  look();
  /** OLD reports that the request has not come. */
  const miss = (): void => {
    const frame = new FrameWriter(OLD);
    frame.add(ArrivalsMissed, { thread: THREAD, term: 1, fromSeq: 1, toSeq: 2 });
    reader.read(frame.take());
  };
  return { arrivalStreams: one, held: only!, move, look, alive, miss, time };
}
const arrived = (to: ActorKey): string => `${RequestArrived.name} to ${to}`;
const withdrawn = (to: ActorKey): string => `${RequestWithdrawn.name} to ${to}`;

test("what nobody has pulled goes to the new holder; what an earlier holder's executor pulls after all is taken back from it", () => {
  const { arrivalStreams: one, held, move, look } = lanes();
  move();
  expect(look()).toEqual([arrived(NEW)]);
  held.executor = EXECUTOR;
  one.pulled(held, OLD);
  expect(look()).toEqual([withdrawn(NEW)]);
  one.pulled(held, OLD);
  expect(look()).toEqual([]);
  // No batcher knows of it now.
  expect(one.watches(EXECUTOR)).toBe(true);
  one.executorLost(EXECUTOR);
  expect(look()).toEqual([arrived(NEW)]);
});

test("what the present holder's executor pulls is that one's business, also when the executor dies", () => {
  const { arrivalStreams: one, held, move, look } = lanes();
  move();
  look();
  held.executor = EXECUTOR;
  one.pulled(held, NEW);
  one.executorLost(EXECUTOR);
  expect(look()).toEqual([]);
});

test("a batcher whose pull was refused is introduced to us and told again, once, and puts nothing back of the batch that ran without", () => {
  const { arrivalStreams: one, held, look } = lanes();
  one.refused(held, NEW);
  expect(look()).toEqual([]);
  one.refused(held, OLD);
  one.refused(held, OLD);
  expect(look()).toEqual([withdrawn(OLD), arrived(OLD)]);
});

test("a request whose row came too late for its batch is told again, once, as one that nobody has pulled", () => {
  const { arrivalStreams: one, held, look } = lanes();
  held.executor = EXECUTOR;
  one.notRun(held);
  one.notRun(held);
  expect(look()).toEqual([withdrawn(OLD), arrived(OLD)]);
});

test("when a model moves, its new holder is told also of what was sent with its batch, and not of what an executor has pulled", () => {
  for (const [isCarried, told] of [
    [true, [arrived(NEW)]],
    [false, []],
  ] as const) {
    const { held, move, look } = lanes();
    Object.assign(held, { executor: EXECUTOR, isCarried });
    move();
    expect(look()).toEqual(told);
  }
});

test("a question that has crossed the answer to an earlier one makes no orphan; one that comes later does", () => {
  const { arrivalStreams: one, held, look, miss, time } = lanes();
  miss();
  expect(look()).toEqual([arrived(OLD)]);
  held.executor = EXECUTOR;
  one.pulled(held, OLD);
  time.now = after(time.now, millis(6));
  miss();
  expect([look(), one.watches(EXECUTOR)]).toEqual([[], false]);
  // Its batcher took us for dead meanwhile, and has forgotten the request.
  time.now = after(time.now, millis(15));
  miss();
  expect([look(), one.watches(EXECUTOR)]).toEqual([[], true]);
  one.executorLost(EXECUTOR);
  expect(look()).toEqual([arrived(OLD)]);
});

test("nothing is kept of models that are gone, of dead batchers and of orphans whose time is over", () => {
  const { arrivalStreams: one, held, move, look, alive } = lanes();
  held.executor = EXECUTOR;
  move();
  expect([one.size, one.watches(EXECUTOR), look()]).toEqual([1, true, []]);
  one.introduceAgain(instant(1_000_001));
  expect(one.watches(EXECUTOR)).toBe(false);
  one.introduce(NEW);
  alive.delete(NEW);
  one.introduceAgain(instant(1));
  alive.add(NEW);
  look();
  one.forgetModel(1);
  expect([one.size, one.lastArrivals()]).toEqual([0, []]);
});
