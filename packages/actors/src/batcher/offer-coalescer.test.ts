import { VirtualClock } from "@tutti/ports/clock";
import type { Candidate } from "@tutti/scheduling";
import { type ActorKey, type GpuId, type Instant, instant, micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { OfferCoalescer } from "./offer-coalescer.ts";

const START = 1_000_000;
const DELAY = micros(1_000);
const candidate = (offerSeq: number, dueInMs: number, batchSize = offerSeq): Candidate => ({
  thread: threadId(1, 0),
  term: 1,
  unfit: [],
  offerSeq,
  batchSize,
  execAt: (START + dueInMs * 1_000 + DELAY) as Instant,
  latest: (START + dueInMs * 1_000 + 2 * DELAY) as Instant,
  delay: DELAY,
});

function watched(): { clock: VirtualClock; coalescer: OfferCoalescer; sent: { at: number; offerSeq: number }[] } {
  const clock = new VirtualClock({ startAt: instant(START) });
  const sent: { at: number; offerSeq: number }[] = [];
  const coalescer = new OfferCoalescer(clock, ({ offerSeq }) =>
    sent.push({ at: (clock.now() - START) / 1_000, offerSeq }),
  );
  return { clock, coalescer, sent };
}

test("the first offer leaves at once, and what changes shortly before the ranker's timer for it: only the newest", () => {
  const { clock, coalescer, sent } = watched();
  coalescer.offer(candidate(1, 20));
  clock.advanceTo(instant(START + 5_000));
  coalescer.offer(candidate(2, 19));
  clock.advanceTo(instant(START + 15_000));
  expect(sent).toEqual([{ at: 0, offerSeq: 1 }]);
  coalescer.offer(candidate(3, 18.5));
  clock.advanceTo(instant(START + 18_500));
  expect(sent.map(({ offerSeq }) => offerSeq)).toEqual([1, 3]);
  expect(sent[1]!.at).toBeLessThanOrEqual(16);
});

test("a grant was due when its candidate was known and due and the accelerator as good as free, or else when it was sent", () => {
  const { clock, coalescer } = watched();
  const at = (ms: number): Instant => (START + 1_000 * ms) as Instant;
  const granted = (more: { freeAt?: Instant; sentAt?: Instant }): number =>
    (coalescer.dueAt({
      ...{ thread: threadId(1, 0), term: 1, offerSeq: 2, gpu: 0 as GpuId, executor: 1 as ActorKey, epoch: 1 },
      ...{ grantSeq: 1, freeAt: at(0), sentAt: at(20), validUntil: at(30), scarcity: 0, ...more },
    }) -
      START) /
    1_000;
  coalescer.offer(candidate(1, 12));
  clock.advanceTo(instant(START + 5_000));
  coalescer.offer(candidate(2, 10));
  expect(granted({})).toBe(10);
  expect(granted({ freeAt: at(15) })).toBe(14);
  expect(granted({ sentAt: at(9) })).toBe(9);
  coalescer.offer(candidate(3, 3));
  expect(granted({})).toBe(5);
  coalescer.offer(candidate(4, 3, 0));
  expect(granted({})).toBe(20);
});

test("one that nothing changes leaves once", () => {
  const { clock, coalescer, sent } = watched();
  coalescer.offer(candidate(1, 20));
  clock.advanceTo(instant(START + 30_000));
  expect(sent).toEqual([{ at: 0, offerSeq: 1 }]);
});

test("a batch that grew replaces what the ranker has only shortly before it is due itself", () => {
  const { clock, coalescer, sent } = watched();
  coalescer.offer(candidate(1, 3)); // due within its lead: it leaves at once
  coalescer.offer(candidate(2, 2.5));
  coalescer.offer(candidate(3, 2));
  expect(sent).toEqual([{ at: 0, offerSeq: 1 }]);
  clock.advanceTo(instant(START + 2_000));
  expect(sent.map(({ offerSeq }) => offerSeq)).toEqual([1, 3]);
  expect(sent[1]!.at).toBeLessThanOrEqual(2);
});

test("what the ranker would act on too early is replaced at once, and what is withdrawn is withdrawn at once", () => {
  const { coalescer, sent } = watched();
  coalescer.offer(candidate(1, 3));
  coalescer.offer(candidate(2, 9));
  coalescer.offer(candidate(3, 9, 0));
  expect(sent.map(({ offerSeq }) => offerSeq)).toEqual([1, 2, 3]);
});

test("after an answer to a grant the ranker is told anew, and has nothing until then", () => {
  const { coalescer, sent } = watched();
  coalescer.offer(candidate(1, 3));
  coalescer.voided(threadId(1, 0));
  expect(coalescer.sent()).toEqual([]);
  coalescer.offer(candidate(2, 20));
  coalescer.offer(candidate(3, 19));
  expect(sent.map(({ offerSeq }) => offerSeq)).toEqual([1, 2]);
  expect(coalescer.sent().map(({ offerSeq }) => offerSeq)).toEqual([3]);
});
