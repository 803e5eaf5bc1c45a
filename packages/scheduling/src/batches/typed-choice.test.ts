import { LatencyTable } from "@tutti/profile";
import { type ActorKey, type GpuId, type Instant, type Micros, type RequestSeq, micros, threadId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  Cluster,
  type DispatchedBatch,
  type Grant,
  type ModelEffects,
  type ModelEvent,
  type Request,
  createModelThread,
  nextWakeAt,
  step,
} from "../index.ts";

const FAST = LatencyTable.affine({ alpha: 263, beta: 1_268, batchSizeMax: 64 });
const SLOW = LatencyTable.affine({ alpha: 4 * 263, beta: 4 * 1_268, batchSizeMax: 64 });
const SLOW_TYPE = { type: 1 };
const COMMON = {
  term: 1,
  epoch: 1,
  policy: { kind: "deferred" },
  patience: 1,
  gather: "head",
  queueMax: 1_000,
} as const;
const NO_DELAYS = { ctrl: 0 as Micros, perItem: 0 as Micros, respond: 0 as Micros, guard: 0 as Micros };

const NO_EFFECTS: ModelEffects = {
  offer: () => undefined,
  answerGrant: () => undefined,
  dispatch: () => undefined,
  refuse: () => undefined,
};

/** @param later - the deadline of a second step of its costs */
const request = (seq: number, arrivedAt: number, deadline: number, later?: number): Request => ({
  ...{ ingress: 1 as ActorKey, seq: seq as RequestSeq, app: 0, size: 0 },
  ...{ arrivedAt: arrivedAt as Instant, deadline: deadline as Instant, slo: (deadline - arrivedAt) as Micros },
  ...(later !== undefined && {
    steps: [
      { deadline: deadline as Instant, cost: 1 },
      { deadline: later as Instant, cost: 2 },
    ],
  }),
});
const tableOf = (latencies: readonly number[]): LatencyTable =>
  LatencyTable.fromPoints(latencies.map((latency, i) => ({ batchSize: i + 1, latency: micros(latency) })));

interface Served {
  readonly pool?: LatencyTable;
  readonly fast?: LatencyTable;
  readonly policy?: "deferred" | "eager";
}

/** A model that two types serve. */
function served({ pool = SLOW, fast = FAST, policy = "deferred" }: Served = {}) {
  const model = createModelThread({
    ...{ ...COMMON, ...NO_DELAYS, policy: { kind: policy }, thread: threadId(0, 0), batchesInFlightMax: 9 },
    ...{ slo: 12_000 as Micros, profile: pool, fastest: { profile: fast, unfit: [SLOW_TYPE] } },
  });
  const batches: DispatchedBatch[] = [];
  const used: boolean[] = [];
  const refused: number[] = [];
  const out: ModelEffects = {
    offer: () => undefined,
    answerGrant: (_, isUsed) => void used.push(isUsed),
    dispatch: (batch) => void batches.push(batch),
    refuse: ({ seq }) => void refused.push(seq),
  };
  const send = (event: ModelEvent): void => step(model, event, out);
  const arrive = (one: Request): void => send({ kind: "request-arrived", at: one.arrivedAt, request: one });
  /** @param own - null: of an unknown type */
  const grant = (own: LatencyTable | null = SLOW, at = 0, free = at): readonly number[] => {
    const ids = { thread: model.thread, term: 1, offerSeq: model.offered.offerSeq, gpu: 0 as GpuId, epoch: 1 };
    const [now, freeAt] = [at as Instant, free as Instant];
    const times = { freeAt, sentAt: now, validUntil: (at + 100) as Instant, scarcity: 0 };
    const before = batches.length;
    const given: Grant = { ...ids, ...times, executor: 2 as ActorKey, grantSeq: used.length + 1 };
    send({ kind: "gpu-granted", at: now, grant: given, ...(own !== null && { own }) });
    return batches.slice(before).flatMap(({ requests }) => requests.map(({ seq }): number => seq));
  };
  const tick = (at: number): void => send({ kind: "clock-reached", at: at as Instant });
  return { model, arrive, grant, tick, batches, used, refused };
}

/** The same with requests of these deadlines at time 0. */
function queued(deadlines: readonly number[], how?: Served) {
  const thread = served(how);
  for (const [i, deadline] of deadlines.entries()) thread.arrive(request(i + 1, 0, deadline));
  return thread;
}

test("worked: a slow accelerator takes the first requests that it can serve, and a fast one all of them (TYPED-2)", () => {
  const deadlines = [4_000, 5_000, 9_000, 12_000, 12_000];
  const slow = queued(deadlines);
  expect(slow.model.offered).toMatchObject({ unfit: [], batchSize: 3, latest: 9_000 - 8_228 });
  expect(slow.grant()).toEqual([3, 4, 5]);
  expect(slow.batches[0]).toMatchObject({ expectedRun: 8_228, startAt: 0 });
  // the others are offered to the fast type alone (TYPED-3)
  expect(slow.model.offered).toMatchObject({ unfit: [SLOW_TYPE], batchSize: 2, latest: 4_000 - 1_794 });
  const fast = queued(deadlines);
  expect(fast.grant(FAST)).toEqual([1, 2, 3, 4, 5]);
  expect(fast.batches[0]).toMatchObject({ expectedRun: 2_583 });
});

test("worked: where requests stay for a fast accelerator, a slow one takes the batch that serves most (TYPED-2)", () => {
  const deadlines = [4_000, 9_000, 11_000, 12_000, 12_000, 12_000];
  const { grant, batches, model } = queued(deadlines);
  expect(grant()).toEqual([3, 4, 5, 6]);
  expect(batches[0]).toMatchObject({ expectedRun: 9_280, latest: 11_000 - 9_280 });
  expect(model.offered).toMatchObject({ batchSize: 1, latest: 9_000 - 6_124 });
  // nothing stays where the first can be served
  expect(queued(deadlines.slice(1)).grant()).toEqual([1, 2, 3]);
});

test("a slow accelerator takes what it can serve also of requests that came out of order or of which one left (TYPED-2)", () => {
  expect(queued([12_000, 9_000, 5_000, 12_000, 4_000]).grant()).toEqual([2, 1, 4]);
  const { model, grant } = queued([4_000, 5_000, 9_000, 12_000, 12_000, 12_000]);
  step(
    model,
    { kind: "request-withdrawn", at: 0 as Instant, ingress: 1 as ActorKey, seq: 4 as RequestSeq },
    NO_EFFECTS,
  );
  expect(grant()).toEqual([3, 5, 6]);
});

test("a slow accelerator that is granted to requests which only a fast one can serve is given back", () => {
  const { grant, used, model } = queued([4_000, 5_000]);
  expect(model.offered.unfit).toEqual([SLOW_TYPE]);
  expect(grant()).toEqual([]);
  expect(used).toEqual([false]);
  expect(grant(FAST)).toEqual([1, 2]);
});

test("a slow accelerator that is given back runs no later step beside requests that it can't serve (M4)", () => {
  const { model, arrive, grant, used } = served();
  arrive(request(1, 0, 1_000, 40_000)); // misses its first step
  arrive(request(2, 0, 4_000));
  expect(model.later?.size).toBe(1);
  expect(grant()).toEqual([]);
  expect(used).toEqual([false]);
  expect(grant(FAST)).toEqual([2, 1]);
});

test("a later step that only the fastest type can meet is kept for it, alone and beside others (TYPED-1)", () => {
  for (const beside of [[], [request(2, 0, 40_000)]]) {
    const { model, arrive, grant, tick, used, refused } = served();
    for (const one of [request(1, 0, 12_000, 15_000), ...beside]) arrive(one);
    tick(10_470); // misses the first step even with the fastest: 10,470 + 1,531 > 12,000
    expect([refused, model.later?.size]).toEqual([[], 1]);
    if (beside.length === 0) {
      expect(model.offered).toMatchObject({ unfit: [SLOW_TYPE], latest: 15_000 - 1_531 });
      expect(grant(SLOW, 10_471)).toEqual([]);
      expect(used).toEqual([false]);
    }
    expect(grant(FAST, 10_471)).toEqual([1, ...beside.map(({ seq }) => seq)]);
    const late = served();
    for (const one of [request(1, 0, 12_000, 15_000), ...beside]) late.arrive(one);
    late.tick(10_470);
    late.tick(13_470);
    expect(late.refused).toEqual([1]);
  }
});

test("a slow accelerator takes a later step that it can meet (LATE-1)", () => {
  const { model, arrive, grant, tick } = served();
  arrive(request(1, 0, 12_000, 30_000));
  tick(10_470);
  expect(model.offered.unfit).toEqual([]);
  expect(grant(SLOW, 10_471)).toEqual([1]);
});

test("a type that takes as long for one request, and longer for two, is planned with its own latencies (M4)", () => {
  const [fast, twin] = [tableOf([1_000, 1_100]), tableOf([1_000, 9_000])];
  const { grant, batches } = queued([5_000, 5_000], { pool: twin, fast });
  expect(grant(twin)).toEqual([1]);
  expect(batches[0]).toMatchObject({ expectedRun: 1_000, latest: 4_000 });
  expect(grant(fast)).toEqual([2]);
});

test("an accelerator of unknown type takes what the slowest can serve, and leaves the rest to the fast one", () => {
  const { grant, used, refused, model } = queued([4_000, 5_000, 9_000, 12_000], { policy: "eager" });
  expect(grant(null)).toEqual([3, 4]);
  expect(used).toEqual([true]);
  expect(refused).toEqual([]);
  expect(model.offered).toMatchObject({ unfit: [SLOW_TYPE], batchSize: 2 });
});

test("an accelerator of unknown type gives back once what it can't serve when it is free, and then drops it", () => {
  const { grant, used, refused, model } = queued([9_000], { policy: "eager" });
  expect(grant(null, 0, 5_000)).toEqual([]);
  expect([used, refused]).toEqual([[false], []]);
  expect(model.offered).toMatchObject({ unfit: [], batchSize: 1 });
  expect(grant(null, 4_000)).toEqual([]);
  expect([used, refused]).toEqual([[false, false], []]);
  expect(model.offered).toMatchObject({ unfit: [SLOW_TYPE], batchSize: 1 });
  expect(grant(null, 4_000)).toEqual([]);
  expect(refused).toEqual([1]);
});

test("what only the fast type can serve is due by that type's times, whatever else waits longer", () => {
  const { model, arrive } = queued([4_000]);
  arrive(request(2, 0, 30_000));
  expect(model.offered).toMatchObject({ unfit: [], batchSize: 1, execAt: 4_000 - 1_268 - 3 * 263 });
});

test("an arrival that a slow accelerator can serve is offered to it at once, behind a full batch of a fast one", () => {
  const { model, arrive } = queued(
    Array.from({ length: 70 }, () => 20_000),
    { pool: tableOf(Array.from({ length: 64 }, () => 30_000)) },
  );
  expect(model.offered).toMatchObject({ unfit: [SLOW_TYPE], batchSize: 64 });
  arrive(request(71, 0, 40_000));
  expect(model.offered).toMatchObject({ unfit: [], batchSize: 1 });
});

/** Latencies of 1 … 6, which never fall. */
const tables = fc
  .array(fc.integer({ min: 0, max: 3_000 }), { minLength: 6, maxLength: 6 })
  .map((steps) => steps.map((_, i) => 500 + steps.slice(0, i + 1).reduce((sum, step) => sum + step, 0)));

test("the choice is that of a naive search, and ends in time whatever the tables of types are (TYPED-4)", () => {
  fc.assert(
    fc.property(
      fc.record({ fast: tables, own: tables, other: tables }),
      fc.array(fc.integer({ min: 400, max: 20_000 }), { minLength: 1, maxLength: 12 }),
      fc.nat(8_000),
      fc.boolean(),
      ({ fast, own, other }, drawn, free, isKnown) => {
        const deadlines = drawn.toSorted((a, b) => a - b);
        const pool = own.map((latency, i) => Math.max(latency, fast[i]!, other[i]!));
        const { grant, batches, refused } = queued(deadlines, {
          pool: tableOf(pool),
          fast: tableOf(fast),
          policy: "eager",
        });
        const taken = grant(isKnown ? tableOf(own) : null, 0, free);
        // A type that isn't known drops requests that are offered to the fast one alone.
        const keeps = isKnown || deadlines.some((deadline) => deadline >= pool[0]!);
        const dropBy = keeps ? fast : pool;
        const runBy = isKnown ? own : pool;
        const dropped = deadlines.findIndex((deadline) => deadline >= free + dropBy[0]!);
        const kept = deadlines.map((deadline, i) => ({ seq: i + 1, deadline })).slice(dropped < 0 ? 99 : dropped);
        const firstFor = (b: number): number => kept.findIndex(({ deadline }) => deadline >= free + runBy[b - 1]!);
        const first = firstFor(1);
        let left = first < 0 ? [] : kept.slice(first, first + 6);
        let size = left.findLastIndex((_, i) => left[0]!.deadline >= free + runBy[i]!) + 1;
        // Where some stay, the largest batch that ends in time anywhere, if it serves more per time.
        const sizes = [6, 5, 4, 3, 2, 1].filter((b) => firstFor(b) >= 0 && firstFor(b) + b <= kept.length);
        const [most = 0] = sizes;
        if (keeps && first > 0 && most > size && most * runBy[size - 1]! > size * runBy[most - 1]!) {
          [left, size] = [kept.slice(firstFor(most)), most];
        }
        expect(taken).toEqual(left.slice(0, size).map(({ seq }) => seq));
        expect(refused).toEqual(deadlines.slice(0, deadlines.length - kept.length).map((_, i) => i + 1));
        for (const { startAt, expectedRun, requests } of batches) {
          expect(expectedRun).toBe(runBy[requests.length - 1]);
          for (const { deadline } of requests) expect(startAt + expectedRun).toBeLessThanOrEqual(deadline);
        }
      },
    ),
    { numRuns: 1_000 },
  );
});

test("what even the fast type can't serve is dropped when that is so, and not before (TYPED-1)", () => {
  const { model, tick, refused } = queued([8_000, 12_000]);
  for (let at = nextWakeAt(model); at < 20_000; at = nextWakeAt(model)) {
    tick(at);
    expect(refused).toEqual(at > 12_000 - 1_531 ? [1, 2] : at > 8_000 - 1_531 ? [1] : []);
  }
  expect(refused).toEqual([1, 2]);
});

const arrivals = fc.array(
  fc.record({
    ...{ gap: fc.integer({ min: 0, max: 4_000 }), slo: fc.integer({ min: 1_000, max: 30_000 }) },
    later: fc.option(fc.integer({ min: 1, max: 30_000 }), { nil: undefined }),
  }),
  { minLength: 1, maxLength: 120 },
);

test("every batch ends in time on the type that is granted, every request ends once, and none is lost that was alone", () => {
  fc.assert(
    fc.property(
      arrivals,
      fc.record({
        ...{ fast: fc.integer({ min: 1, max: 3 }), slow: fc.integer({ min: 1, max: 3 }) },
        ...{ twins: fc.nat(2), unknown: fc.nat(2) },
      }),
      fc.integer({ min: 2, max: 8 }),
      fc.constantFrom("deferred", "eager", "adaptive"),
      fc.constantFrom("head", "target"),
      (drawn, { fast, slow, twins, unknown }, times, kind, gather) => {
        // A twin takes as long as a fast one for one request, and as long as a slow one for many.
        const table = LatencyTable.affine({ alpha: 263 * times, beta: 1_268 * times, batchSizeMax: 64 });
        const twin = tableOf(Array.from({ length: 64 }, (_, i) => (i === 0 ? FAST : table).latency(i + 1)));
        const known = fast + slow + twins;
        const ownOf = (gpu: number): LatencyTable =>
          gpu < fast ? FAST : gpu < fast + slow || gpu >= known ? table : twin;
        const ended = new Map<number, string>();
        const end = (seq: number, how: string): void => {
          expect(ended.has(seq), `request ${seq} ends twice`).toBe(false);
          ended.set(seq, how);
        };
        const cluster = new Cluster({
          gpus: known + unknown,
          models: [
            {
              ...{ ...COMMON, ...NO_DELAYS, policy: { kind }, gather, thread: threadId(0, 0), slo: 30_000 as Micros },
              ...{
                profile: table,
                fastest: { profile: FAST, unfit: [SLOW_TYPE, { type: 2 }] },
                batchesInFlightMax: 99,
              },
            },
          ],
          ctrl: micros(0),
          typeOf: (gpu) => (gpu < known ? [FAST, table, twin].indexOf(ownOf(gpu)) : 3),
          ownProfile: (_, gpu) => (gpu < known ? ownOf(gpu) : undefined),
          listener: {
            dispatched: ({ requests, grant, expectedRun, startAt, latest }) => {
              expect(expectedRun).toBe(ownOf(grant.gpu).latency(requests.length));
              expect(startAt).toBeLessThanOrEqual(latest);
            },
            refused: ({ seq }, cause) => end(seq, cause),
            finished: ({ requests }, _, at) => {
              for (const { seq, deadline } of requests) {
                expect(at).toBeLessThanOrEqual(deadline);
                end(seq, "served");
              }
            },
          },
        });
        let at = 0;
        for (const [i, { gap, slo, later }] of drawn.entries()) {
          at += gap;
          cluster.arrive(0, request(i + 1, at, at + slo, later && at + slo + later));
        }
        cluster.runUntilIdle();
        expect(ended.size).toBe(drawn.length);
        const [one] = drawn;
        if (drawn.length === 1)
          expect(ended.get(1)).toBe(one!.slo + (one!.later ?? 0) >= 1_531 ? "served" : "infeasible");
      },
    ),
    { numRuns: 300 },
  );
});

/** The fates of requests, on two fast accelerators and a slow one. @param twin - the second one's own latencies */
function traceOf(drawn: readonly { readonly gap: number; readonly slo: number }[], how: Traced): readonly string[] {
  const { times, kind, gather, twin, isUntyped = false } = how;
  const told: string[] = [];
  const slow = LatencyTable.affine({ alpha: 263 * times, beta: 1_268 * times, batchSizeMax: 64 });
  const own = [FAST, twin, slow];
  const fastest = { profile: FAST, unfit: times === 1 ? [] : [{ type: 2 }] };
  const cluster = new Cluster({
    gpus: 3,
    models: [
      {
        ...{ ...COMMON, ...NO_DELAYS, policy: { kind }, gather, thread: threadId(0, 0), slo: 12_000 as Micros },
        ...{ profile: slow, batchesInFlightMax: 99, ...(!isUntyped && { fastest }) },
      },
    ],
    ctrl: micros(0),
    ...(!isUntyped && { typeOf: (gpu) => gpu, ownProfile: (_, gpu) => own[gpu] }),
    listener: {
      dispatched: ({ requests, grant, startAt }, at) =>
        told.push(`${at}: ${grant.gpu} runs ${requests.map(({ seq }) => seq).join()} at ${startAt}`),
      refused: ({ seq }, cause, at) => told.push(`${at}: ${seq} is ${cause}`),
      finished: () => undefined,
    },
  });
  let at = 0;
  for (const [i, { gap, slo }] of drawn.entries()) cluster.arrive(0, request(i + 1, (at += gap), at + slo));
  cluster.runUntilIdle();
  return told;
}
interface Traced {
  readonly times: number;
  readonly kind: "deferred" | "eager" | "adaptive";
  readonly gather: "head" | "target";
  readonly twin: LatencyTable;
  readonly isUntyped?: boolean;
}

const gaps = fc.array(
  fc.record({ gap: fc.integer({ min: 0, max: 400 }), slo: fc.constantFrom(3_000, 8_000, 12_000, 60_000) }),
  { minLength: 1, maxLength: 400, size: "max" },
);

test("two types that take the same, under different names, are scheduled as one", () => {
  const equal = LatencyTable.affine({ alpha: 263, beta: 1_268, batchSizeMax: 64 });
  fc.assert(
    fc.property(
      gaps,
      fc.integer({ min: 2, max: 8 }),
      fc.constantFrom("deferred", "eager", "adaptive"),
      fc.constantFrom("head", "target"),
      (drawn, times, kind, gather) => {
        const how = { times, kind, gather } as const;
        expect(traceOf(drawn, { ...how, twin: equal })).toEqual(traceOf(drawn, { ...how, twin: FAST }));
      },
    ),
    { numRuns: 100 },
  );
});

test("one type only, under one name or two, is scheduled exactly as without types", () => {
  const equal = LatencyTable.affine({ alpha: 263, beta: 1_268, batchSizeMax: 64 });
  fc.assert(
    fc.property(
      gaps,
      fc.constantFrom("deferred", "eager", "adaptive"),
      fc.constantFrom("head", "target"),
      (drawn, kind, gather) => {
        const how = { times: 1, kind, gather, twin: equal } as const;
        expect(traceOf(drawn, how)).toEqual(traceOf(drawn, { ...how, isUntyped: true }));
      },
    ),
    { numRuns: 100 },
  );
});

test("a new profile, which comes every few seconds, leaves the fastest type the target batch of the present rate", () => {
  const fastest = { profile: FAST, unfit: [SLOW_TYPE] };
  const model = createModelThread({
    ...{ ...COMMON, ...NO_DELAYS, gather: "target", thread: threadId(0, 0), batchesInFlightMax: 9 },
    ...{ slo: 12_000 as Micros, profile: SLOW, fastest },
  });
  const arrive = (seq: number): void =>
    step(
      model,
      { kind: "request-arrived", at: (seq * 100) as Instant, request: request(seq, seq * 100, seq * 100 + 12_000) },
      NO_EFFECTS,
    );
  for (let seq = 1; seq <= 10_000; seq++) arrive(seq);
  const target = model.fastest!.targets.forSlo(12_000 as Micros);
  expect(target).toBeGreaterThan(5);
  step(model, { kind: "profile-changed", at: model.now, profile: SLOW, fastest }, NO_EFFECTS);
  expect(model.fastest!.targets.forSlo(12_000 as Micros)).toBe(target);
});
