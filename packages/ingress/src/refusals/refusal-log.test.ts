import {
  type ErrorCode,
  REPORTED_REFUSALS_MAX,
  type RefusalsAsked,
  RefusedRequest,
  type Refuser,
  type ResultBatch,
  TuttiError,
  WAITED_FOR,
  readRefusals,
} from "@tutti/protocol";
import { type Instant, type Micros, actorKey, actorToken, after, instant, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import { REFUSALS_KEPT_MAX, RefusalLog } from "./refusal-log.ts";
import { headerError } from "../requests/terms-error.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const SELF = actorKey(77_777);
const BATCHER = actorKey(88_888);
const EXECUTOR = actorKey(99_999);
const AT = instant(1_000_000);
const ALL: RefusalsAsked = { ask: 1, most: 100 };
const OVERLOADED = new TuttiError("TUTTI_OVERLOADED", "too much", { retryAfterMs: 40 });
const TRACE = "0af7651916cd43dd8448eb211c80319c";

const model = (name: string, number = 1) => ({ spec: { name, number } }) as unknown as CatalogModel;
const held = (fields: Partial<PendingRequest> = {}): PendingRequest =>
  pendingRequest({ model: model("m"), slo: millis(25), deadline: after(AT, millis(25)), ...fields });
const results = (fields: Partial<ResultBatch> = {}): ResultBatch =>
  ({
    ...{ executor: EXECUTOR, gpu: 2, batchId: 9, batchSize: 8 },
    ...{ startedAt: after(AT, millis(20)), finishedAt: after(AT, millis(30)), ...fields },
  }) as unknown as ResultBatch;

function refuse(log: RefusalLog, request: PendingRequest, now: Instant = AT, error = OVERLOADED): void {
  log.note(request, { error, by: "ingress", now, results: undefined });
}

test("a refusal by a batcher is kept with its ids, its terms, what the publisher was told, and the state of the queue", () => {
  const log = new RefusalLog(SELF);
  const request = held({
    ...{ messageId: "order-17", publisherId: "body-17", publisherTrace: `00-${TRACE}-b7ad6b7169203331-00` },
    ...{ refusedBy: BATCHER, feasible: millis(43), model: model("m/2") },
    refusedIn: {
      ...{ waitedFor: WAITED_FOR.indexOf("accelerator"), queued: 12, inFlight: 4, accelerators: 4, idle: 0 },
      alone: millis(6),
    },
  });
  log.note(request, { error: OVERLOADED, by: "batcher", now: after(AT, millis(18)), results: undefined });
  const { requests, matching } = log.find(ALL);
  expect(matching).toBe(1);
  expect(requests).toEqual([
    {
      ...{ entry: 1, at: 1_018_000, waited: 18_000, model: "m", version: "m/2", app: "shop", slo: 25_000 },
      ...{ messageId: "order-17", bodyId: "body-17", traceId: TRACE },
      refusal: {
        ...{ code: "TUTTI_OVERLOADED", text: "too much", retryable: true, retryAfterMs: 40 },
        ...{ by: "batcher", actor: BATCHER, feasible: 43_000 },
      },
      queue: { waitedFor: "accelerator", queued: 12, inFlight: 4, accelerators: 4, idle: 0, alone: 6_000 },
    },
  ]);
  expect(RefusedRequest(requests[0])).toBe(true);
});

test("a late answer and a failed run are kept with their batch", () => {
  const log = new RefusalLog(SELF);
  const late = after(AT, millis(31));
  log.note(held(), { error: undefined, by: "ingress", now: late, results: results() });
  const failure = new TuttiError("TUTTI_INTERNAL", "out of memory");
  log.note(held(), { error: failure, by: "executor", now: late, results: results() });
  const batch = { size: 8, executor: EXECUTOR, gpu: 2, startedAt: 1_020_000, finishedAt: 1_030_000 };
  const [failed, answered] = log.find(ALL).requests;
  expect(answered).toEqual({
    ...{ entry: 1, at: 1_031_000, waited: 31_000, model: "m", app: "shop", slo: 25_000, lateBy: 6_000, batch },
  });
  expect(failed).toMatchObject({ batch, refusal: { by: "executor", actor: EXECUTOR } });
});

test("texts that may quote an input are not kept: of errors in reading it, in its run and in functions (REFUSALS-4)", () => {
  const log = new RefusalLog(SELF);
  const note = (code: ErrorCode, by: Refuser): void =>
    log.note(held(), { error: new TuttiError(code, "s3cret"), by, now: AT, results: results() });
  note("TUTTI_INVALID_INPUT", "ingress");
  note("TUTTI_INTERNAL", "ingress");
  note("TUTTI_TOO_LARGE", "executor");
  refuse(log, held(), AT, headerError("Tutti-Slo", "s3cret", "is no duration"));
  const { requests } = log.find(ALL);
  expect(requests.map(({ refusal }) => [refusal?.code, refusal?.text])).toEqual([
    ["TUTTI_INVALID_INPUT", "Tutti-Slo is no duration"],
    ["TUTTI_TOO_LARGE", undefined],
    ["TUTTI_INTERNAL", undefined],
    ["TUTTI_INVALID_INPUT", undefined],
  ]);
  expect(requests.map(RefusedRequest)).toEqual(Array(4).fill(true));
  expect(JSON.stringify(requests)).not.toContain("s3cret");
});

test("of refusals the last ones are reported, once, as their publishers read them and may be asked for", () => {
  const log = new RefusalLog(SELF);
  for (let i = 0; i < REPORTED_REFUSALS_MAX + 3; i++)
    refuse(
      log,
      held({ messageId: `order-${i}` }),
      AT,
      new TuttiError("TUTTI_OVERLOADED", `no ${i} ${"x".repeat(999)}`),
    );
  log.note(held(), { error: undefined, by: "ingress", now: after(AT, millis(31)), results: results() });
  const read = readRefusals(log.told().refusals)!;
  expect(read).toHaveLength(REPORTED_REFUSALS_MAX);
  expect(read[0]).toMatchObject({ at: AT, model: "m", code: "TUTTI_OVERLOADED", app: "shop", id: "order-3" });
  expect(read[0]!.text).toMatch(/^no 3 x+$/);
  expect(log.told()).toEqual({});

  // Without an id of its own, a request is named by its trace or by its number here.
  refuse(log, held({ publisherTrace: `00-${TRACE}-b7ad6b7169203331-00` }));
  refuse(log, held({ target: "any/thing/else" }), AT, new TuttiError("TUTTI_INVALID_INPUT", "s3cret"));
  const number = REPORTED_REFUSALS_MAX + 6;
  expect(readRefusals(log.told().refusals)).toEqual([
    { at: AT, model: "m", code: "TUTTI_OVERLOADED", text: "too much", app: "shop", id: TRACE, traceId: TRACE },
    expect.objectContaining({ text: expect.stringMatching(/may quote/), id: `${actorToken(SELF)}.${number}` }),
  ]);
});

test("a request whose result never came names the executor that had it", () => {
  const log = new RefusalLog(SELF);
  refuse(log, held({ executor: EXECUTOR }), AT, new TuttiError("TUTTI_DEADLINE_EXCEEDED", "no result"));
  expect(log.find(ALL).requests).toMatchObject([{ pulledBy: EXECUTOR, refusal: { by: "ingress", actor: SELF } }]);
});

test("answers in time, cancelled requests, jobs, warm-up requests and late stages are left out (REFUSALS-3)", () => {
  const log = new RefusalLog(SELF);
  const [now, late] = [after(AT, millis(25)), after(AT, millis(26))];
  log.note(held(), { error: undefined, by: "ingress", now, results: results() });
  refuse(log, held(), now, new TuttiError("TUTTI_CANCELLED", "taken back"));
  refuse(log, held({ isJob: true }));
  refuse(log, held({ onSettled: () => undefined }));
  log.note(held({ pipeline: "ocr" }), { error: undefined, by: "ingress", now: late, results: results() });
  expect([log.seen, log.find(ALL)]).toEqual([0, { requests: [], matching: 0 }]);
  refuse(log, held({ pipeline: "ocr" }));
  expect(log.find({ ...ALL, model: "ocr" }).requests).toMatchObject([{ model: "m", pipeline: "ocr" }]);
});

test("questions choose by model, application, cause, time and any id, and get the newest first", () => {
  const log = new RefusalLog(SELF);
  const late = after(AT, millis(26));
  refuse(log, held({ messageId: "a" }), AT);
  refuse(log, held({ publisherId: "b", target: "other", app: "camera" }), AT);
  log.note(held({ messageId: "c" }), { error: undefined, by: "ingress", now: late, results: undefined });
  const entries = (asked: Partial<RefusalsAsked>): number[] =>
    log.find({ ...ALL, ...asked }).requests.map(({ entry }) => entry);
  expect(entries({})).toEqual([3, 2, 1]);
  expect(entries({ model: "other" })).toEqual([2]);
  expect(entries({ app: "camera" })).toEqual([2]);
  expect(entries({ cause: "TUTTI_OVERLOADED" })).toEqual([2, 1]);
  expect(entries({ cause: "LATE" })).toEqual([3]);
  expect(entries({ since: late })).toEqual([3]);
  expect(entries({ request: "b" })).toEqual([2]);
  expect(entries({ request: `${actorToken(SELF)}.1` })).toEqual([1]);
  expect(log.find({ ...ALL, most: 1 })).toMatchObject({ requests: [{ entry: 3 }], matching: 3 });
});

test("a request that is refused before its model and its terms are known is kept without them", () => {
  const log = new RefusalLog(SELF);
  const long = pendingRequest({ target: "x".repeat(300), messageId: "i".repeat(300) });
  refuse(log, long, AT, new TuttiError("TUTTI_NOT_FOUND", "y".repeat(1_000)));
  const [one] = log.find(ALL).requests;
  expect(RefusedRequest(one)).toBe(true);
  expect([one!.model.length, one!.messageId!.length, one!.refusal!.text!.length, one!.slo]).toEqual([
    64,
    128,
    240,
    undefined,
  ]);
});

test("what another actor tells and no reader would take is left out, and the request is kept (T8)", () => {
  const log = new RefusalLog(SELF);
  const alone = Infinity as Micros;
  const refusedIn = { waitedFor: 250, queued: 1, inFlight: 1, accelerators: 1, idle: 0, alone };
  refuse(log, held({ refusedIn, feasible: alone }));
  const run = results({ startedAt: Infinity as Instant });
  log.note(held(), { error: undefined, by: "ingress", now: after(AT, millis(26)), results: run });
  const { requests } = log.find(ALL);
  expect(requests.map(RefusedRequest)).toEqual([true, true]);
  expect(requests.map(({ queue, batch, refusal }) => [queue, batch, refusal?.feasible])).toEqual(
    Array(2).fill([undefined, undefined, undefined]),
  );
});

test("of a flood of one kind a burst is kept and so many a second, and other kinds lose none (REFUSALS-2)", () => {
  const log = new RefusalLog(SELF);
  const kept = (name: string): number => log.find({ ...ALL, model: name }).matching;
  for (let i = 0; i < 500; i++) refuse(log, held());
  expect(kept("m")).toBe(500);
  for (let i = 0; i < 100_000; i++) refuse(log, held(), after(AT, micros(10 * i)));
  for (let i = 0; i < 20; i++) refuse(log, held({ model: model("quiet", 2), target: "quiet" }), after(AT, micros(i)));
  expect([kept("m"), kept("quiet")]).toEqual([512 + 4, 20]); // 5 in a second that ends 10 µs early
  expect([log.seen, log.left]).toEqual([100_520, 100_520 - 512 - 4 - 20]);
});

test("a flood of 50 minutes leaves there what other kinds had before it (REFUSALS-2)", () => {
  const log = new RefusalLog(SELF);
  refuse(log, held({ model: model("quiet", 2), target: "quiet" }));
  for (let i = 0; i < 50 * 60 * 20; i++) refuse(log, held(), after(AT, millis(50 * i)));
  expect(log.find({ ...ALL, model: "quiet" }).matching).toBe(1);
  expect(log.find({ ...ALL, model: "m" }).matching).toBeGreaterThan(15_000);
});

test("an ingress keeps so many refusals and no more, the newest (REFUSALS-1)", () => {
  const log = new RefusalLog(SELF);
  const count = REFUSALS_KEPT_MAX + 100;
  for (let i = 0; i < count; i++) refuse(log, held(), after(AT, millis(200 * i)));
  const { requests, matching } = log.find(ALL);
  expect([matching, log.seen, log.left]).toEqual([REFUSALS_KEPT_MAX, count, 100]);
  expect(requests.map(({ entry }) => entry)).toEqual(Array.from({ length: 100 }, (_, i) => count - i));
});
