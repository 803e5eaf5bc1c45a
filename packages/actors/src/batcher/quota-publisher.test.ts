import { type ModelSpec, RequestsShed, SHARE_CLASSES_MAX, SharesTold } from "@tutti/protocol";
import { fnv1a } from "@tutti/wire";
import { expect, test } from "vitest";
import type { Clock } from "@tutti/ports/clock";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { QuotaPublisher, shareRulesOf } from "./quota-publisher.ts";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

/** One thread and one ingress, and the messages to that ingress. */
function noticed() {
  const told: unknown[] = [];
  const shares = { isOverloaded: false, classes: [] as object[], advance: () => {}, shares: () => shares.classes };
  const entry = { id: 64, term: 1, wasOverloaded: false, core: { shares } } as unknown as ThreadEntry;
  let tick = (): void => {};
  const notices = new QuotaPublisher({
    runtime: {
      send: (_: unknown, __: unknown, message: { classes: readonly object[] }) => told.push(message.classes.length),
      onPacked: () => {},
      registry: { ofRole: () => [{ key: 1 }] },
      log: { info: () => {} },
    } as unknown as ActorRuntime,
    threads: { values: () => [entry] } as unknown as ThreadTable,
    clock: {
      now: () => 0,
      every: (_: unknown, run: () => void) => ((tick = run), { stop: () => {} }),
    } as unknown as Clock,
  });
  const set = (isOverloaded: boolean): void => {
    shares.isOverloaded = isOverloaded;
    shares.classes = isOverloaded ? [{ app: 5, priority: 0, keep: 0.1 }] : [];
  };
  return { told, set, stepped: () => notices.stepped(entry), tick: () => tick() };
}

test("an overload's beginning and end are told once, at once, whether a step or the timer finds them", () => {
  const { told, set, stepped, tick } = noticed();
  stepped();
  tick();
  expect(told).toEqual([]);
  set(true);
  stepped();
  stepped();
  expect(told).toEqual([1]);
  tick(); // repeated while it lasts
  stepped();
  expect(told).toEqual([1, 1]);
  set(false);
  stepped();
  stepped();
  tick();
  expect(told).toEqual([1, 1, 0]);
  set(true);
  tick();
  stepped();
  set(false);
  tick();
  stepped();
  expect(told).toEqual([1, 1, 0, 1, 0]);
});

test("weights are found by the number of the application, and those of a model without any are left out", () => {
  const rules = shareRulesOf({ shares: { camera: 3, "*": 2 }, priorityFloor: 0.2 });
  expect([...rules.weights!]).toEqual([[fnv1a("camera"), 3]]);
  expect(rules).toMatchObject({ otherWeight: 2, priorityFloor: 0.2 });
  expect(shareRulesOf({})).toEqual({});
});

test("weights that can't be read are as good as none: the store can hold anything (T8)", () => {
  for (const shares of [7, { a: -1 }, { a: "x" }, { "a b": 1 }])
    expect(shareRulesOf({ shares, priorityFloor: 3 } as unknown as ModelSpec)).toEqual({});
});

test("shares and reports beyond their bounds, or of another form, are dropped (T7, T8)", () => {
  const told = (classes: unknown): object => ({ thread: 64, term: 3, classes });
  const many = (one: object, count: number): object[] => Array.from({ length: count }, () => one);
  const share = { app: 5, priority: 0, keep: 0.1 };
  const shed = { app: 5, priority: 0, count: 9 };
  expect(SharesTold.accepts(told(many(share, SHARE_CLASSES_MAX)))).toBe(true);
  expect(SharesTold.accepts(told(many(share, SHARE_CLASSES_MAX + 1)))).toBe(false);
  expect(RequestsShed.accepts(told(many(shed, SHARE_CLASSES_MAX)))).toBe(true);
  expect(RequestsShed.accepts(told(many(shed, SHARE_CLASSES_MAX + 1)))).toBe(false);
  for (const bad of [
    { ...share, keep: 2 },
    { ...share, keep: NaN },
    { ...share, app: 0.5 },
    { ...share, priority: 256 },
    null,
    7,
  ])
    expect(SharesTold.accepts(told([bad]))).toBe(false);
  for (const bad of [
    { ...shed, count: 0 },
    { ...shed, count: 1e12 },
    { ...shed, app: -1 },
    { ...shed, priority: -1 },
    null,
    7,
  ])
    expect(RequestsShed.accepts(told([bad]))).toBe(false);
  expect(SharesTold.accepts({ thread: -1, term: 1, classes: [] })).toBe(false);
  expect(RequestsShed.accepts({ thread: 1, term: 1, classes: 7 })).toBe(false);
});
