import type { TraceEntry } from "@tutti/simulator";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import type { StatusEvent } from "../system/running-system.ts";
import type { Agreement } from "./agreement.ts";
import { renderAgreement } from "./agreement-text.ts";
import { type Seen, compare } from "./comparison.ts";
import { delaysIn, seenIn, windowOf } from "./live-figures.ts";

const seen: Seen = { goodRps: 3_500, batchMean: 6, p99Ms: 24, refusedShare: 0.001 };
const apart = (live: Partial<Seen>, simulated: Partial<Seen> = {}): string[] =>
  compare({ ...seen, ...live }, { ...seen, ...simulated })
    .filter(({ agrees }) => !agrees)
    .map(({ quantity }) => quantity);

test("quantities agree within 5 %, in both directions", () => {
  expect(apart({})).toEqual([]);
  expect(apart({ goodRps: 3_326, batchMean: 6.29, p99Ms: 22.9 })).toEqual([]);
  expect(apart({ goodRps: 3_324, batchMean: 6.31, p99Ms: 22.7 })).toEqual(["goodRps", "batchMean", "p99Ms"]);
});

test("few refusals agree within half a point of all requests, and many within 5 %", () => {
  expect(apart({ refusedShare: 0.0059 })).toEqual([]);
  expect(apart({ refusedShare: 0.0061 })).toEqual(["refusedShare"]);
  expect(apart({ refusedShare: 0.31 }, { refusedShare: 0.3 })).toEqual([]);
  expect(apart({ refusedShare: 0.28 }, { refusedShare: 0.3 })).toEqual(["refusedShare"]);
});

test("a result that one of them doesn't have agrees with nothing", () => {
  expect(apart({ p99Ms: NaN }, { batchMean: 0 })).toEqual(["batchMean", "p99Ms"]);
});

const thread = (items: number, us: number) => ({
  ...{ name: "a", batches: 2, items, lateStarts: 1 },
  delaysUs: { ctrl: us, perItem: us, respond: us, guard: us, reserve: us },
  measuredUs: { arrive: us, grant: us, start: us },
});
const status = (requests: number, more: Partial<StatusEvent> = {}): StatusEvent => ({
  ...{ event: "status", seconds: 1, requests, inTime: requests, reasons: {}, batches: 1, items: requests, gpus: [] },
  ...{ threads: [], ...more },
});
/** Ten requests a second. */
const trace = (requests: number): TraceEntry[] =>
  Array.from({ length: requests }, (_, i) => ({ at: micros(100_000 * i), model: "a", app: "b", slo: undefined }));

test("the measured time begins with the first status after the warm-up, and has the requests that came since", () => {
  const statuses = [status(0), status(9), status(12), status(9), status(10), status(0)];
  expect(windowOf(statuses, trace(40), 2)).toEqual({
    ...{ from: 2_100_000, until: 3_900_001, offered: 19, statuses: statuses.slice(3) },
  });
});

test("a recording that has other requests than the ingress can't be compared, nor one within the warm-up", () => {
  expect(() => windowOf([status(10), status(9)], trace(20), 0)).toThrow("the ingress had 19 requests");
  expect(() => windowOf([status(10), status(10)], trace(20), 2)).toThrow("within 2 s of warm-up");
});

test("what was served is counted by the ingress; requests given up at their deadlines are no refusals", () => {
  const reasons = { OVERLOADED: 3, DEADLINE_INFEASIBLE: 1, DEADLINE_EXCEEDED: 5 };
  const statuses = [status(50, { inTime: 41, reasons, batches: 10 }), status(50, { batches: 15 })];
  expect(seenIn({ from: 0, until: 2_000_000, offered: 100, statuses })).toEqual({
    ...{ goodRps: 45.5, batchMean: 4, refusedShare: 0.04 },
  });
});

test("delays are means over requests, and late starts a share of batches", () => {
  const delays = delaysIn([status(4, { threads: [thread(30, 100)] }), status(4, { threads: [thread(10, 500)] })]);
  expect(delays.reserved.ctrl).toBe(200);
  expect(delays.measured.arrive).toBe(200);
  expect(delays.lateStarts).toBe(0.5);
});

test("a last line says of each workload that they agree, or which quantities part them and what these are", () => {
  const agreement: Agreement = {
    ...{ workload: "table2", offeredRps: 3_600, sendLagMs: 0.71 },
    compared: compare({ ...seen, batchMean: 7, refusedShare: 0.02 }, seen),
    delays: delaysIn([status(4, { threads: [thread(30, 100)] })]),
  };
  const lines = renderAgreement(agreement).trimEnd().split("\n");
  expect(lines.map((line) => line.replaceAll(/ +/g, " ").trim())).toEqual([
    "table2: 3600 r/s offered",
    "live simulated apart",
    "good requests/s 3500 3500 0.0 %",
    "mean batch 7.00 6.00 16.7 %",
    "p99 of answers (ms) 24.00 24.00 0.0 %",
    "refused (%) 2.00 0.10 1.9 points",
    "set aside (µs) ctrl 100, perItem 100, respond 100, guard 100, reserve 100",
    "passed (µs) arrive 100, grant 100, start 100",
    "started late 50.0 % of batches",
    "load generator p99 0.7 ms late",
    "table2: apart in mean batch 7.00 live, 6.00 simulated; refused (%) 2.00 live, 0.10 simulated",
  ]);
  expect(renderAgreement({ ...agreement, compared: compare(seen, seen) })).toContain(
    "table2: live and simulated agree\n",
  );
});
