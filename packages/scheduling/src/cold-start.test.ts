/** Requests that have waited for their parked model: they have more time than their SLO (policy.ts, aimOf). */
import { affineCosts, pointHistogram } from "@tutti/dynamic";
import { LatencyTable } from "@tutti/profile";
import type { ActorKey, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type ModelThreadConfig, createModelThread, dynamicProfile, offeredCandidate, step } from "./index.ts";
import { aimOf } from "./policy.ts";

const SLO = 20_000 as Micros;
const COLD_START = 5_000_000;
const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 8 });
const nothing = (): void => undefined;
const SINK = { offer: nothing, answerGrant: nothing, dispatch: nothing, refuse: nothing };

/** The standing offer of a thread after these arrivals, at `now`: from when on, and until when, it may start. */
function offered(
  arrivals: readonly { readonly at: number; readonly coldStart: number }[],
  now: number,
  more: Partial<ModelThreadConfig> = {},
): { readonly execAt: number; readonly latest: number; readonly batchSize: number } {
  const zero = 0 as Micros;
  const model = createModelThread({
    ...{ thread: 64 as ThreadId, term: 1, epoch: 1, profile, slo: SLO, policy: { kind: "deferred" }, patience: 1 },
    ...{ gather: "head", guard: zero, ctrl: zero, perItem: zero, respond: zero, queueMax: 10, batchesInFlightMax: 4 },
    ...more,
  });
  for (const [i, { at, coldStart }] of arrivals.entries()) {
    const times = { arrivedAt: at as Instant, slo: SLO, deadline: (at + SLO + coldStart) as Instant };
    const request = { ...times, ingress: 1 as ActorKey, seq: (i + 1) as RequestSeq, app: 0, size: 0, units: 1 };
    step(model, { kind: "request-arrived", at: at as Instant, request }, SINK);
  }
  // Its model is loaded, and offered to a leader from now on.
  step(model, { kind: "sub-cluster-changed", at: now as Instant, epoch: 1 }, SINK);
  const { execAt, latest, batchSize } = offeredCandidate(model);
  return { execAt, latest, batchSize };
}

const dynamic = dynamicProfile({
  apps: [{ app: 0, share: 1, alone: pointHistogram(5_000) }],
  ...{ costs: affineCosts(5_000, 0.2), batchSizeMax: 8, slo: SLO },
});
const KINDS: readonly [string, Partial<ModelThreadConfig>][] = [
  ["of a static model", {}],
  ["whose running time depends on the input", { dynamic }],
];

test.each(KINDS)(
  "once its model is loaded, a batch %s starts at once, and may start as late as its cold start lets it",
  (_, more) => {
    const now = 1_000_000;
    const cold = offered(
      [0, 1, 2].map((at) => ({ at, coldStart: COLD_START })),
      now,
      more,
    );
    expect(cold).toMatchObject({ execAt: now, batchSize: 3 });
    expect(cold.latest).toBeGreaterThan(4_900_000);
    const warm = offered([{ at: now, coldStart: 0 }], now, more);
    expect(warm.execAt).toBeGreaterThan(now);
  },
);

test("a request that comes for a parked model is deferred no longer than any other, should the model be there at once", () => {
  const [cold, warm] = [COLD_START, 0].map((coldStart) => offered([{ at: 0, coldStart }], 0));
  expect(cold!.execAt).toBe(warm!.execAt);
  expect(cold!.latest).toBe(warm!.latest + COLD_START);
});

test("the time of any other request is its deadline alone", () => {
  const time = fc.nat({ max: 1e9 });
  fc.assert(
    fc.property(time, time, time, time, (arrivedAt, slo, less, deadline) => {
      const head = {
        arrivedAt: arrivedAt as Instant,
        slo: slo as Micros,
        deadline: (arrivedAt + slo - less) as Instant,
      };
      return aimOf(head, deadline) === deadline;
    }),
  );
});
