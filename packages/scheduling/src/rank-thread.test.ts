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
} from "./index.ts";

const GPUS = 5;
/** Two accelerators are of type 1, and the last one is of either type. */
const TYPES = [0, 1, 0, 1, 0];
const CTRL = 3;
const FRESH = { type: 0, grantSeq: 0 };

interface NaiveModel {
  term: number;
  offerSeq: number;
  candidate: Candidate | undefined;
  unfit: Candidate["unfit"];
  timer: number;
  isWaiting: boolean;
  goesFirst?: boolean;
  granted: boolean;
}
interface NaiveGpu {
  executor: number;
  type: number;
  free: number;
  grantSeq: number;
  /** The newest grant that was not declined, and its value before that. */
  reportable: number;
  reportableBefore: number;
  grantedTo: ThreadId | undefined;
  timer: number;
}

/** docs/algorithms.md, A4, by scanning everything at every step. */
class NaiveRank {
  models = new Map<ThreadId, NaiveModel>();
  gpus = new Map<number, NaiveGpu>();
  log: string[] = [];

  get inOrder() {
    return [...this.models].sort((a, b) => a[0] - b[0]);
  }
  publish(m: NaiveModel, now: number) {
    m.isWaiting = false;
    m.timer = m.candidate ? Math.max(now, m.candidate.execAt - m.candidate.delay) : Infinity;
  }
  settle(g: NaiveGpu, free: number, now: number) {
    const m = g.grantedTo === undefined ? undefined : this.models.get(g.grantedTo);
    Object.assign(g, { free, timer: Infinity, grantedTo: undefined });
    this.release(m, now);
  }
  release(m: NaiveModel | undefined, now: number) {
    if (!m) return;
    m.granted = false;
    this.publish(m, now);
  }
  isFit(m: NaiveModel, g: NaiveGpu): boolean {
    return !m.candidate!.unfit.some(({ type }) => type === g.type);
  }
  /** Models whose newest offer names a type, and that could get this accelerator. */
  claims(g: NaiveGpu): number {
    return [...this.models.values()].filter((m) => m.unfit.length > 0 && !m.unfit.some(({ type }) => type === g.type))
      .length;
  }
  leastFree(): [number, NaiveGpu] | undefined {
    const waiting = [...this.models.values()].filter((m) => m.isWaiting);
    return [...this.gpus]
      .filter(([, g]) => g.free < Infinity && waiting.some((m) => this.isFit(m, g)))
      .sort((a, b) => a[1].free - b[1].free || a[0] - b[0])[0];
  }
  matchAt(): number {
    const waiting = [...this.models.values()].filter((m) => m.isWaiting);
    const gpu = this.leastFree();
    return waiting.length && gpu ? gpu[1].free - Math.max(...waiting.map((m) => m.candidate!.delay)) : Infinity;
  }
  wakeAt(): number {
    const timers = [...[...this.models.values()].map((m) => m.timer), ...[...this.gpus.values()].map((g) => g.timer)];
    return Math.min(...timers, this.matchAt());
  }
  grant(thread: ThreadId, m: NaiveModel, gpu: number, now: number) {
    const g = this.gpus.get(gpu)!;
    this.log.push(`${now} grant ${thread}/${m.term}.${m.offerSeq} gpu ${gpu}.${++g.grantSeq} free ${g.free}`);
    const seqs = { reportableBefore: g.reportable, reportable: g.grantSeq };
    Object.assign(g, { free: Infinity, grantedTo: thread, timer: now + 4 * CTRL + 1, ...seqs });
    Object.assign(m, { granted: true, isWaiting: false, timer: Infinity });
  }
  clock(now: number) {
    for (;;) {
      const due = this.inOrder
        .filter(([, m]) => m.timer <= now)
        .sort((a, b) => a[1].timer - b[1].timer || a[0] - b[0])[0];
      const expired = [...this.gpus]
        .filter(([, g]) => g.timer <= now)
        .sort((a, b) => a[1].timer - b[1].timer || a[0] - b[0])[0];
      if (due) this.modelTimer(due[0], due[1], now);
      else if (expired) this.expire(expired[0], expired[1], now);
      else if (this.matchAt() <= now) this.match(now);
      else return;
    }
  }
  modelTimer(thread: ThreadId, m: NaiveModel, now: number) {
    const c = m.candidate!;
    m.timer = Infinity;
    const execAt = Math.max(c.execAt, now + c.delay);
    const gpu = [...this.gpus]
      .filter(([, g]) => g.free <= execAt && g.free < Infinity && this.isFit(m, g))
      .sort((a, b) => this.claims(a[1]) - this.claims(b[1]) || a[0] - b[0])[0];
    if (gpu && execAt <= c.latest + CTRL)
      this.grant(thread, m, gpu[0], now); // RANK-7
    else if (execAt > c.latest) m.candidate = undefined;
    else Object.assign(m, { isWaiting: true, goesFirst: [...this.gpus].some(([, g]) => !this.isFit(m, g)) });
  }
  match(now: number) {
    const [gpu, g] = this.leastFree()!;
    for (const [, m] of this.models)
      if (m.isWaiting && this.isFit(m, g) && m.candidate!.latest < g.free)
        Object.assign(m, { isWaiting: false, candidate: undefined });
    const first = this.inOrder
      .filter(([, m]) => m.isWaiting && this.isFit(m, g))
      .sort(
        ([, a], [, b]) => Number(b.goesFirst) - Number(a.goesFirst) || a.candidate!.latest - b.candidate!.latest,
      )[0];
    if (first) this.grant(first[0], first[1], gpu, now);
  }
  expire(gpu: number, g: NaiveGpu, now: number) {
    const m = g.grantedTo === undefined ? undefined : this.models.get(g.grantedTo);
    Object.assign(g, { grantedTo: undefined, timer: now + 1000 });
    this.release(m, now);
    this.log.push(`${now} ask ${gpu} ${g.executor} ${g.grantSeq}`);
  }
  step(e: RankEvent) {
    const now = e.at;
    if (e.kind === "candidate-offered") {
      const { thread, term, offerSeq, batchSize } = e.candidate;
      const m = this.models.get(thread) ?? {
        term: -1,
        offerSeq: -1,
        candidate: undefined,
        unfit: [],
        timer: Infinity,
        isWaiting: false,
        granted: false,
      };
      this.models.set(thread, m);
      if (term < m.term || (term === m.term && offerSeq <= m.offerSeq)) return;
      Object.assign(m, {
        term,
        offerSeq,
        unfit: e.candidate.unfit,
        candidate: batchSize > 0 ? { ...e.candidate } : undefined,
      });
      if (!m.granted) this.publish(m, now);
    } else if (e.kind === "grant-answered") {
      const m = this.models.get(e.thread);
      const g = this.gpus.get(e.gpu);
      if (!m) return;
      if (m.term === e.term && e.offerSeq >= m.offerSeq)
        Object.assign(m, { offerSeq: e.offerSeq, candidate: undefined, isWaiting: false, timer: Infinity });
      if (g?.grantedTo !== e.thread || g.grantSeq !== e.grantSeq) return;
      if (!e.used) g.reportable = g.reportableBefore;
      this.settle(g, e.freeAt, now);
    } else if (e.kind === "gpu-joined") {
      const g = this.gpus.get(e.gpu) ?? {
        executor: 0,
        type: 0,
        free: Infinity,
        grantSeq: 0,
        reportable: 0,
        reportableBefore: 0,
        grantedTo: undefined,
        timer: Infinity,
      };
      if (g.executor === e.executor && e.grantSeq < g.grantSeq) return;
      this.gpus.set(
        e.gpu,
        Object.assign(g, {
          executor: e.executor,
          type: e.type,
          grantSeq: Math.max(g.grantSeq, e.grantSeq),
          reportable: e.grantSeq,
        }),
      );
      this.settle(g, e.freeAt, now);
    } else if (e.kind === "gpu-freed") {
      const g = this.gpus.get(e.gpu);
      if (g?.executor !== e.executor || e.grantSeq < g.reportable) return;
      if (e.grantSeq > g.grantSeq) Object.assign(g, { grantSeq: e.grantSeq, reportable: e.grantSeq });
      this.settle(g, e.freeAt, now);
    } else if (e.kind === "gpu-lost") {
      const g = this.gpus.get(e.gpu);
      if (g?.executor !== e.executor) return;
      this.settle(g, Infinity, now);
      g.executor = 0;
    } else if (e.kind === "model-gone") {
      for (const g of this.gpus.values()) if (g.grantedTo === e.thread) g.grantedTo = undefined;
      this.models.delete(e.thread);
    } else if (e.kind === "clock-reached") this.clock(now);
  }
}

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

/** Turns random numbers into events that often make sense: answers to grants in flight, reports of batches that ran. */
function toEvent(
  { what, a, b, c, d }: { what: number; a: number; b: number; c: number; d: number },
  at: Instant,
  grants: Grant[],
  seqs: number[],
): RankEvent {
  const thread = threadId(a, 0);
  const gpu = b as GpuId;
  const executor = (10 * (b + 1) + (c > 10 ? 1 : 0)) as ActorKey;
  const last = grants.at(-1 - (c % 3));
  if (what < 7) {
    const delay = (d % 4) as Micros;
    const execAt = (at + c) as Instant;
    const latest = (execAt + d - 2) as Instant;
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
    const freeAt = (at + d) as Instant;
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
      freeAt: d === 0 ? NEVER : ((at + d - 1) as Instant),
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

test("RankThread grants what the printed algorithm grants, whatever events come (A4, RANK-1 to RANK-4)", () => {
  let grantsSeen = 0;
  fc.assert(
    fc.property(fc.array(choice, { minLength: 1, maxLength: 150, size: "max" }), (choices) => {
      const rank = createRankThread({ epoch: 7, ctrl: CTRL as Micros, gpusMax: GPUS });
      const naive = new NaiveRank();
      const grants: Grant[] = [];
      const log: string[] = [];
      const out: RankEffects = {
        grant: (g) => {
          grants.push(g);
          const slot = rank.slots[rank.slotOf.get(g.thread)]!;
          expect(slot.unfit.map(({ type }) => type)).not.toContain(rank.accelerators.typeOf(g.gpu));
          log.push(`${g.sentAt} grant ${g.thread}/${g.term}.${g.offerSeq} gpu ${g.gpu}.${g.grantSeq} free ${g.freeAt}`);
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
      for (const chosen of choices) {
        for (let until = now + chosen.gap; nextRankWakeAt(rank) < until;) {
          now = Math.max(now, nextRankWakeAt(rank));
          both({ kind: "clock-reached", at: now as Instant });
        }
        now = Math.max(now, now + chosen.gap);
        both(toEvent(chosen, now as Instant, grants, seqs));
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
    }),
    { numRuns: 400 },
  );
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
