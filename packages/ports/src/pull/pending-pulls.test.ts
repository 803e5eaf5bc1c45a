import type { PulledItem } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import type { ReplyFrame } from "@tutti/wire";
import { expect, test } from "vitest";
import { PULLS_MAX, PendingPulls, type PullOutcome } from "./index.ts";

const PEER = actorKey(5);
const item = (seq: number): PulledItem => ({ seq, row: new Uint8Array(8).fill(seq), traceparent: "" });
const reply = (correlation: number, first: number, total: number, items: PulledItem[]): ReplyFrame => ({
  kind: "reply",
  correlation,
  forbidden: false,
  first,
  total,
  items,
});

function waiting(seqs: number[]) {
  let stopped = 0;
  const pulls = new PendingPulls(() => ({ stop: () => stopped++ }));
  const outcomes: PullOutcome[] = [];
  const correlation = pulls.open(PEER, seqs, 50, (outcome) => outcomes.push(outcome))!;
  return { pulls, outcomes, correlation, stopped: () => stopped };
}

test("a reply in several frames is whole when its last item came, its earlier rows kept although they were borrowed", () => {
  const { pulls, outcomes, correlation, stopped } = waiting([1, 2, 3]);
  const borrowed = item(1);
  pulls.onReply(PEER, reply(correlation, 0, 3, [borrowed]));
  borrowed.row!.fill(0xff);
  pulls.onReply(PEER, reply(correlation, 1, 3, [item(2), item(3)]));
  expect(outcomes).toEqual([{ items: [item(1), item(2), item(3)] }]);
  expect([pulls.size, stopped()]).toEqual([0, 1]);
});

test("a reply for other requests, out of order, or of another length fails the pull instead of mixing rows up", () => {
  for (const wrong of [
    (c: number) => reply(c, 0, 3, [item(1), item(3), item(2)]),
    (c: number) => reply(c, 0, 2, [item(1), item(2)]),
    (c: number) => reply(c, 1, 3, [item(2), item(3)]),
    (c: number) => reply(c, 0, 3, []),
    (c: number) => reply(c, 0, 3, [item(7), item(8), item(9)]),
  ]) {
    const { pulls, outcomes, correlation } = waiting([1, 2, 3]);
    pulls.onReply(PEER, wrong(correlation));
    expect([outcomes, pulls.strayReplies]).toEqual([[{ failure: "unreachable" }], 1]);
  }
});

test("a reply counts only from the peer that was asked", () => {
  const { pulls, outcomes, correlation } = waiting([1]);
  pulls.onReply(actorKey(6), reply(correlation, 0, 1, [item(1)]));
  pulls.onReply(PEER, reply(correlation + 1, 0, 1, [item(1)]));
  expect([outcomes, pulls.strayReplies]).toEqual([[], 2]);
  pulls.onReply(PEER, reply(correlation, 0, 1, [item(1)]));
  expect(outcomes).toHaveLength(1);
});

test("at the bound, and once closed, nothing more is taken", () => {
  const pulls = new PendingPulls(() => ({ stop: () => {} }));
  let failures = 0;
  for (let i = 0; i < PULLS_MAX; i++) expect(pulls.open(PEER, [1], 50, () => failures++)).toBeDefined();
  expect(pulls.open(PEER, [1], 50, () => failures++)).toBeUndefined();
  pulls.close();
  expect([failures, pulls.size, pulls.open(PEER, [1], 50, () => {})]).toEqual([PULLS_MAX, 0, undefined]);
});
