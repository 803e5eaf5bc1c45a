import {
  ALWAYS,
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  NEVER,
  type ThreadId,
  threadId,
} from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Candidate,
  type Grant,
  type RankEffects,
  type RankEvent,
  createRankThread,
  nextRankWakeAt,
  stepRank,
} from "../index.ts";
import { NaiveRank } from "../testing/naive-rank.ts";

const GPUS = 5;
/** Two accelerators are of type 1, and the last one is of either type. */
const TYPES = [0, 1, 0, 1, 0];
const CTRL = 3;
const FRESH = { type: 0, grantSeq: 0 };

const small = fc.nat(3);
const choice = fc.record({
  what: fc.nat(19),
  a: small,
  b: fc.nat(GPUS - 1),
  c: fc.nat(12),
  d: fc.nat(12),
  gap: fc.constantFrom(0, 0, 1, 1, 2, 7),
});

/**
 * The first model can run everywhere; the second not on type 0, the third not on type 1, the last on either or none.
 */
const unfitOf = (model: number, c: number): Candidate["unfit"] =>
  [0, 1].filter((type) => (model === 3 ? c % 4 > type : model === 2 - type)).map((type) => ({ type }));

/** Units of the time for which accelerators are taken; in the larger runs have all ended earlier than planned. */
const UNITS = [1, 6, 12];
/** Batches of such runs. */
const EARLY_RUNS = 60;

/** Turns random numbers into events that often make sense: answers to grants in flight, reports of batches that ran. */
function toEvent(
  { what, a, b, c, d }: { what: number; a: number; b: number; c: number; d: number },
  at: Instant,
  grants: Grant[],
  seqs: number[],
  unit = 1,
): RankEvent {
  const thread = threadId(a, 0);
  const gpu = b as GpuId;
  const executor = (10 * (b + 1) + (c > 10 ? 1 : 0)) as ActorKey;
  const last = grants.at(-1 - (c % 3));
  if (what < 7) {
    const delay = (d % 4) as Micros;
    const execAt = (at + c) as Instant;
    const latest = (execAt + (d - 2) * unit) as Instant;
    const term = d === 12 ? 2 : 1;
    const offerSeq = (seqs[a] = seqs[a]! + (c === 0 ? -1 : 1));
    return {
      kind: "candidate-offered",
      at,
      candidate: {
        thread,
        term,
        offerSeq,
        batchSize: d === 5 ? 0 : 1 + c,
        execAt,
        latest,
        delay,
        unfit: unfitOf(a, c),
      },
    };
  }
  if (what < 12 && last !== undefined) {
    const freeAt = (at + d * unit) as Instant;
    const offerSeq = c % 2 === 0 ? last.offerSeq : seqs[last.thread / 64]!;
    return {
      kind: "grant-answered",
      at,
      thread: last.thread,
      term: last.term,
      gpu: last.gpu,
      grantSeq: last.grantSeq,
      used: d > 2,
      freeAt,
      offerSeq,
      scarcity: c,
    };
  }
  if (what < 14 && last !== undefined)
    return {
      kind: "gpu-freed",
      at,
      gpu: last.gpu,
      executor: last.executor,
      grantSeq: Math.max(0, last.grantSeq - (c === 3 ? 1 : 0)),
      freeAt: d === 0 ? NEVER : ((at + (d - 1) * Math.ceil(unit / 3)) as Instant),
      ended: c > 3,
    };
  if (what < 16)
    return {
      ...{ kind: "gpu-joined", at, gpu, executor, type: b === 4 ? d % 2 : TYPES[b]! },
      ...{ freeAt: c === 0 ? ALWAYS : ((at + d) as Instant), grantSeq: c % 3 },
    };
  if (what === 16) return { kind: "gpu-lost", at, gpu, executor };
  if (what === 17) return { kind: "model-gone", at, thread };
  return { kind: "clock-reached", at };
}

test("RankThread grants what the printed algorithm grants, whatever events come (A4, RANK-1 to RANK-4, RANK-8)", () => {
  let grantsSeen = 0;
  let earlySeen = 0;
  fc.assert(
    fc.property(
      fc.array(choice, { minLength: 1, maxLength: 150, size: "max" }),
      fc.constantFrom(...UNITS),
      (choices, unit) => {
        const rank = createRankThread({ epoch: 7, ctrl: CTRL as Micros, gpusMax: GPUS });
        const naive = new NaiveRank(CTRL);
        const grants: Grant[] = [];
        const log: string[] = [];
        const out: RankEffects = {
          grant: (g) => {
            grants.push(g);
            const slot = rank.slots[rank.slotOf.get(g.thread)]!;
            expect(slot.unfit.map(({ type }) => type)).not.toContain(rank.accelerators.typeOf(g.gpu));
            log.push(
              `${g.sentAt} grant ${g.thread}/${g.term}.${g.offerSeq} gpu ${g.gpu}.${g.grantSeq} free ${g.freeAt}`,
            );
            expect([g.epoch, g.validUntil]).toEqual([7, g.sentAt + 4 * CTRL]);
          },
          askGpu: (gpu, executor, grantSeq) => log.push(`${rank.now} ask ${gpu} ${executor} ${grantSeq}`),
        };
        const seqs = [1, 1, 1, 1];
        let now = 1000;
        const both = (event: RankEvent) => {
          stepRank(rank, event, out);
          naive.step(event);
          expect(log).toEqual(naive.log);
          expect(nextRankWakeAt(rank)).toBe(naive.wakeAt());
        };
        for (const gpu of [0, 1, 2]) {
          const executor = (10 * (gpu + 1)) as ActorKey;
          const joined = { gpu: gpu as GpuId, executor, type: TYPES[gpu]!, freeAt: ALWAYS, grantSeq: 0 };
          both({ kind: "gpu-joined", at: now as Instant, ...joined });
        }
        for (let i = 0; unit > 1 && i < EARLY_RUNS; i++) {
          const at = now as Instant;
          const offerSeq = (seqs[0] = seqs[0]! + 1);
          const window = { batchSize: 1, execAt: at, latest: NEVER, delay: 0 as Micros, unfit: [] };
          both({ kind: "candidate-offered", at, candidate: { thread: threadId(0, 0), term: 1, offerSeq, ...window } });
          both({ kind: "clock-reached", at });
          const { gpu, grantSeq, thread, term, executor } = grants.at(-1)!;
          const used = { gpu, grantSeq, thread, term, offerSeq, used: true, scarcity: 0 };
          both({ kind: "grant-answered", at, ...used, freeAt: (now + 12) as Instant });
          both({ kind: "gpu-freed", at, gpu, executor, grantSeq, freeAt: at, ended: true });
        }
        for (const chosen of choices) {
          for (let until = now + chosen.gap; nextRankWakeAt(rank) < until;) {
            now = Math.max(now, nextRankWakeAt(rank));
            both({ kind: "clock-reached", at: now as Instant });
          }
          now = Math.max(now, now + chosen.gap);
          both(toEvent(chosen, now as Instant, grants, seqs, unit));
          for (const [thread, index] of rank.slotOf) {
            const slot = rank.slots[index]!;
            if (!rank.waiting.has(index)) continue;
            expect(slot.execAt - slot.delay, `W holds ${thread} before its timer fired`).toBeLessThanOrEqual(now);
            if (chosen.what <= 17) continue; // the timers have not fired since the event
            const idle = rank.accelerators.firstFreeBy(now, slot.classes);
            expect(idle, `${thread} waits beside an accelerator that is idle and fit`).toBe(-1);
          }
        }
        grantsSeen += grants.length;
        earlySeen += naive.early;
      },
    ),
    { numRuns: 400 },
  );
  expect(earlySeen).toBeGreaterThan(100);
  expect(grantsSeen).toBeGreaterThan(1000); // the random events do reach the interesting states
});

test("models and accelerators beyond the declared bounds are ignored and counted (T7)", () => {
  const rank = createRankThread({ epoch: 1, ctrl: 0 as Micros, gpusMax: 2 });
  const out = { grant() {}, askGpu() {} };
  stepRank(
    rank,
    { kind: "gpu-joined", at: 0 as Instant, gpu: 2 as GpuId, executor: 1 as ActorKey, ...FRESH, freeAt: ALWAYS },
    out,
  );
  expect([rank.ignored, rank.accelerators.joined]).toEqual([1, 0]);
  const offer = {
    term: 1,
    offerSeq: 1,
    batchSize: 1,
    execAt: 0 as Instant,
    latest: 9 as Instant,
    delay: 0 as Micros,
    unfit: [],
  };
  for (let i = 0; i < 65_537; i++)
    stepRank(
      rank,
      { kind: "candidate-offered", at: 0 as Instant, candidate: { ...offer, thread: i as ThreadId } },
      out,
    );
  expect([rank.ignored, rank.slotOf.size]).toEqual([2, 65_536]);
});

test("an accelerator that does not answer is asked again until it does, and serves again then (RANK-4)", () => {
  const rank = createRankThread({ epoch: 1, ctrl: 500 as Micros, gpusMax: 1 });
  const asked: number[] = [];
  const grants: Grant[] = [];
  const out: RankEffects = { grant: (g) => grants.push(g), askGpu: () => asked.push(rank.now) };
  const gpu = { gpu: 0 as GpuId, executor: 5 as ActorKey };
  stepRank(rank, { kind: "gpu-joined", at: 0 as Instant, ...gpu, freeAt: ALWAYS, ...FRESH }, out);
  const seqs = { thread: 1 as ThreadId, term: 1, offerSeq: 1, batchSize: 1, unfit: [] };
  const candidate = { ...seqs, execAt: 0 as Instant, latest: 9e6 as Instant, delay: 0 as Micros };
  stepRank(rank, { kind: "candidate-offered", at: 0 as Instant, candidate }, out);
  while (asked.length < 3)
    stepRank(rank, { kind: "clock-reached", at: Math.max(0, nextRankWakeAt(rank)) as Instant }, out);
  expect(grants.map((g) => [g.sentAt, g.validUntil])).toEqual([[0, 2000]]);
  expect(asked).toEqual([2001, 4001, 6001]);
  const late = {
    ...gpu,
    thread: 1 as ThreadId,
    term: 1,
    used: true,
    freeAt: 7000 as Instant,
    offerSeq: 0,
    grantSeq: 1,
    scarcity: 0,
  };
  stepRank(rank, { kind: "grant-answered", at: 6500 as Instant, ...late }, out);
  expect(rank.accelerators.leastFree(0)).toBe(Infinity); // too late to count
  stepRank(rank, { kind: "gpu-freed", at: 6600 as Instant, ...gpu, grantSeq: 1, freeAt: 6600 as Instant }, out);
  stepRank(rank, { kind: "clock-reached", at: 6600 as Instant }, out);
  expect(grants.map((g) => g.grantSeq)).toEqual([1, 2]);
});

test("after a declined grant the accelerator's reports about the one before it count at once (GPU-2)", () => {
  const rank = createRankThread({ epoch: 1, ctrl: 500 as Micros, gpusMax: 1 });
  const grants: Grant[] = [];
  const out: RankEffects = { grant: (g) => grants.push(g), askGpu: () => undefined };
  const gpu = { gpu: 0 as GpuId, executor: 5 as ActorKey };
  const at = (now: number): { at: Instant } => ({ at: now as Instant });
  const offer = (now: number, offerSeq: number): void => {
    const seqs = { thread: 1 as ThreadId, term: 1, offerSeq, batchSize: 1, delay: 0 as Micros, unfit: [] };
    const candidate = { ...seqs, execAt: now as Instant, latest: 9e6 as Instant };
    stepRank(rank, { kind: "candidate-offered", ...at(now), candidate }, out);
    stepRank(rank, { kind: "clock-reached", ...at(now) }, out);
  };
  const answer = (now: number, used: boolean, freeAt: number): void => {
    const { grantSeq, offerSeq } = grants.at(-1)!;
    const seqs = { ...gpu, thread: 1 as ThreadId, term: 1, offerSeq, grantSeq, scarcity: 0 };
    stepRank(rank, { kind: "grant-answered", ...at(now), ...seqs, used, freeAt: freeAt as Instant }, out);
  };
  stepRank(rank, { kind: "gpu-joined", ...at(0), ...gpu, freeAt: ALWAYS, ...FRESH }, out);
  offer(0, 1);
  answer(1, true, 100);
  offer(200, 2);
  answer(201, false, 201);
  expect(grants.map(({ grantSeq }) => grantSeq)).toEqual([1, 2]);
  const freed = { kind: "gpu-freed", ...gpu, freeAt: 5000 as Instant } as const;
  stepRank(rank, { ...freed, ...at(202), grantSeq: 1 }, out);
  expect(rank.accelerators.leastFree(0)).toBe(5000);
  stepRank(rank, { ...freed, ...at(203), grantSeq: 0, freeAt: 1 as Instant }, out);
  expect(rank.accelerators.leastFree(0)).toBe(5000); // older than any that ran
});

test("an accelerator that went on under a predecessor is heard, also when a grant of ours with a lower sequence has expired (GPU-5)", () => {
  const grants: Grant[] = [];
  const asked: number[] = [];
  const out: RankEffects = {
    grant: (grant) => grants.push({ ...grant }),
    askGpu: (_gpu, _executor, grantSeq) => asked.push(grantSeq),
  };
  const rank = createRankThread({ epoch: 2, ctrl: CTRL as Micros, gpusMax: GPUS });
  const [gpu, executor] = [0 as GpuId, 10 as ActorKey];
  const at = (time: number): Instant => time as Instant;
  const offer = (time: number, offerSeq: number): void => {
    const candidate = { thread: threadId(0, 0), term: 1, offerSeq, batchSize: 1, delay: 0 as Micros, unfit: [] };
    stepRank(
      rank,
      { kind: "candidate-offered", at: at(time), candidate: { ...candidate, execAt: at(time), latest: at(time + 90) } },
      out,
    );
    stepRank(rank, { kind: "clock-reached", at: at(time) }, out);
  };
  stepRank(rank, { kind: "gpu-joined", at: at(0), gpu, executor, type: 0, freeAt: at(0), grantSeq: 7 }, out);
  offer(1, 1);
  const expired = at(nextRankWakeAt(rank));
  stepRank(rank, { kind: "clock-reached", at: expired }, out);
  expect([grants.map(({ grantSeq }) => grantSeq), asked]).toEqual([[8], [8]]);
  // Its predecessor had granted it 8, 9 and 10 before the new leader was known.
  stepRank(rank, { kind: "gpu-freed", at: at(expired + 1), gpu, executor, freeAt: at(expired + 5), grantSeq: 10 }, out);
  offer(expired + 6, 2);
  expect(grants.at(-1)).toMatchObject({ grantSeq: 11, freeAt: expired + 5 });
});
