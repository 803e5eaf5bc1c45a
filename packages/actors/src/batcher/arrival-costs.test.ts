import type { RequestArrived, RequestCosts } from "@tutti/protocol";
import type { ActorKey, Instant, RequestSeq } from "@tutti/units";
import { threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { ArrivalCosts } from "./arrival-costs.ts";

const at = (deadline: number): Instant => deadline as Instant;
const INGRESS = 5 as ActorKey;
const costs = (seq: number, ...steps: [number, number][]): RequestCosts => ({
  ...{ thread: threadId(1, 0), seq: seq as RequestSeq },
  steps: steps.map(([deadline, cost]) => ({ deadline: at(deadline), cost })),
});
const arrival = (seq: number, deadline: number): RequestArrived =>
  ({ thread: threadId(1, 0), seq: seq as RequestSeq, deadline: at(deadline) }) as RequestArrived;

test("costs belong to the arrival behind them, and to no other", () => {
  const kept = new ArrivalCosts();
  expect(kept.take(arrival(1, 100), INGRESS)).toBeUndefined();
  kept.note(costs(1, [100, 1], [200, 3]), INGRESS);
  expect(kept.take(arrival(1, 100), 6 as ActorKey)).toBeUndefined();
  expect(kept.take(arrival(1, 100), INGRESS)).toEqual(costs(1, [100, 1], [200, 3]).steps);
  expect(kept.take(arrival(1, 100), INGRESS)).toBeUndefined();
  kept.note(costs(1, [100, 1], [200, 3]), INGRESS);
  expect(kept.take(arrival(2, 100), INGRESS)).toBeUndefined();
  kept.note(costs(1, [100, 1], [200, 3]), INGRESS);
  expect(kept.take(arrival(1, 110), INGRESS)).toBeUndefined();
});

test("steps that no ingress of ours sends are ignored (T8)", () => {
  const kept = new ArrivalCosts();
  const nine = Array.from({ length: 9 }, (_, i): [number, number] => [100 + i, i]);
  for (const steps of [
    [],
    [
      [100, 1],
      [100, 2],
    ],
    [
      [100, 2],
      [200, 1],
    ],
    nine,
  ] as [number, number][][]) {
    kept.note(costs(1, ...steps), INGRESS);
    expect(kept.take(arrival(1, 100), INGRESS)).toBeUndefined();
  }
});

test("no more ingresses are kept than there may be, the newest", () => {
  const kept = new ArrivalCosts();
  for (let ingress = 1; ingress <= 1_025; ingress++) kept.note(costs(1, [100, 1]), ingress as ActorKey);
  expect(kept.take(arrival(1, 100), 1_025 as ActorKey)).toHaveLength(1);
  expect(kept.take(arrival(1, 100), 1 as ActorKey)).toBeUndefined();
});
