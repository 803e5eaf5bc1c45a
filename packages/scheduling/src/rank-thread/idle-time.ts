/**
 * Time of accelerators that no request needs: for runs without a grant (docs/algorithms.md, B9), and for jobs (A13).
 * Such a run isn't cut short. So it gets time only if every candidate that is due before its end finds another
 * accelerator free by its planned start.
 */
import type { ActorKey, GpuId, Instant, Micros } from "@tutti/units";
import type { Grant } from "../messages.ts";
import type { RankThread } from "./rank-thread-state.ts";

export interface IdleQuestion {
  readonly gpu: GpuId;
  readonly executor: ActorKey;
  /** The newest grant that the accelerator has seen: with a newer one on its way it is not idle. */
  readonly grantSeq: number;
  readonly takes: Micros;
}

/** @returns the time until which nothing is granted on it; undefined: it is needed, or not idle */
export function giveIdleTime(rank: RankThread, at: Instant, asked: IdleQuestion): Instant | undefined {
  const { accelerators } = rank;
  const { gpu, executor, grantSeq, takes } = asked;
  if (!accelerators.isDrivenBy(gpu, executor) || !accelerators.mayReport(gpu, grantSeq)) return undefined;
  if (accelerators.freeAt(gpu) > at) return undefined;
  const until = (at + takes) as Instant;
  if (!isSpare(rank, at, gpu, until)) return undefined;
  accelerators.settle(gpu, until);
  return until;
}

interface Due {
  readonly startAt: number;
  readonly classes: number;
}

/**
 * Whether each candidate that waits for an accelerator, or is due before `until`, finds another one than this free by
 * its planned start. Where accelerators are of several classes the answer may be no although there is a way; it is
 * never yes without one. O(models) where any is due, else O(1).
 */
export function isSpare(rank: RankThread, at: Instant, gpu: GpuId, until: Instant): boolean {
  const { accelerators, waiting, modelTimers } = rank;
  if (modelTimers.topPriority >= until && waiting.size === 0) return true;
  const due = candidatesDue(rank, 1 << accelerators.classOf(gpu), at, until);
  if (due.length === 0) return true;
  if (due.length >= accelerators.joined) return false;
  due.sort((a, b) => a.startAt - b.startAt);
  const taken = new Set<number>([gpu]);
  return due.every(({ startAt, classes }) => {
    const other = accelerators.findFreeBy(startAt, classes, taken);
    if (other < 0) return false;
    taken.add(other);
    return true;
  });
}

function candidatesDue({ waiting, modelTimers, slots }: RankThread, bit: number, at: Instant, until: Instant): Due[] {
  const due: Due[] = [];
  for (let index = 0; index < slots.length; index++) {
    const isWaiting = waiting.has(index);
    if (!isWaiting && !modelTimers.has(index)) continue;
    const { classes, execAt } = slots[index]!;
    if (!isWaiting && execAt >= until) continue;
    if ((classes & bit) !== 0) due.push({ startAt: isWaiting || execAt < at ? at : execAt, classes });
  }
  return due;
}

/** Delay of a grant behind its candidate's planned start because of idle time given until then; otherwise 0. */
export function idleDelayOf(rank: RankThread, grant: Pick<Grant, "thread" | "freeAt">, until: Instant): Micros {
  const slot = rank.slots[rank.slotOf.get(grant.thread)];
  if (slot === undefined) return 0 as Micros;
  const late = (grant.freeAt < until ? grant.freeAt : until) - slot.execAt;
  return (late > 0 ? late : 0) as Micros;
}
