/**
 * Gives an accelerator idle time for a run without a grant (docs/algorithms.md, B9). Such a run can't be cancelled. So
 * it gets time only if no candidate is due before it would end, or if each that is due finds another accelerator free.
 */
import type { ActorKey, GpuId, Instant, Micros } from "@tutti/units";
import { ALL_CLASSES } from "./accelerator-classes.ts";
import type { Grant } from "./messages.ts";
import type { RankThread } from "./rank-thread.ts";

export interface IdleQuestion {
  readonly gpu: GpuId;
  readonly executor: ActorKey;
  /** The newest grant that the accelerator has seen: with a newer one on its way it is not idle. */
  readonly grantSeq: number;
  readonly takes: Micros;
  /** All accelerators that may be granted. */
  readonly gpus: Iterable<GpuId>;
}

/** @returns the time until which nothing is granted on it; undefined: it is needed, or not idle */
export function giveIdleTime(rank: RankThread, at: Instant, asked: IdleQuestion): Instant | undefined {
  const { accelerators } = rank;
  const { gpu, executor, grantSeq, takes, gpus } = asked;
  if (!accelerators.isDrivenBy(gpu, executor) || !accelerators.mayReport(gpu, grantSeq)) return undefined;
  if (accelerators.freeAt(gpu) > at) return undefined;
  const until = (at + takes) as Instant;
  const due = candidatesDue(rank, 1 << accelerators.classOf(gpu), until);
  if (due.count > 0) {
    let others = 0;
    for (const other of gpus) {
      const isFit = ((due.classes >> accelerators.classOf(other)) & 1) === 1;
      if (other !== gpu && isFit && accelerators.freeAt(other) <= at) others++;
    }
    if (others < due.count) return undefined;
  }
  accelerators.settle(gpu, until);
  return until;
}

/**
 * Candidates that could get an accelerator of this class, and wait for one or will before that moment: their number,
 * and the classes that all of them could get.
 */
function candidatesDue(
  { waiting, modelTimers, slots }: RankThread,
  bit: number,
  until: Instant,
): { count: number; classes: number } {
  const due = { count: 0, classes: ALL_CLASSES };
  if (modelTimers.topPriority >= until && waiting.size === 0) return due;
  for (let index = 0; index < slots.length; index++) {
    if (!waiting.has(index) && !(modelTimers.priority(index) < until)) continue;
    const { classes } = slots[index]!;
    if ((classes & bit) === 0) continue;
    due.count++;
    due.classes &= classes;
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
