/**
 * Gives an accelerator idle time for a run without a grant (docs/algorithms.md, B9). Such a run can't be cancelled. So
 * it gets time only if no candidate is due before it would end, or if each that is due finds another accelerator free.
 */
import type { ActorKey, GpuId, Instant, Micros } from "@tutti/units";
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
  if (accelerators.free.get(gpu) > at) return undefined;
  const until = (at + takes) as Instant;
  const due = candidatesDue(rank, until);
  if (due > 0) {
    let others = 0;
    for (const other of gpus) if (other !== gpu && accelerators.free.get(other) <= at) others++;
    if (others < due) return undefined;
  }
  accelerators.settle(gpu, until);
  return until;
}

/** Number of candidates that wait for an accelerator, or will before that moment. */
function candidatesDue({ waiting, modelTimers, slots }: RankThread, until: Instant): number {
  if (modelTimers.topPriority >= until) return waiting.size;
  let due = waiting.size;
  for (let slot = 0; slot < slots.length; slot++)
    if (modelTimers.has(slot) && modelTimers.priority(slot) < until) due++;
  return due;
}

/** Delay of a grant behind its candidate's planned start because of idle time given until then; otherwise 0. */
export function idleDelayOf(rank: RankThread, grant: Pick<Grant, "thread" | "freeAt">, until: Instant): Micros {
  const slot = rank.slots[rank.slotOf.get(grant.thread)];
  if (slot === undefined) return 0 as Micros;
  const late = (grant.freeAt < until ? grant.freeAt : until) - slot.execAt;
  return (late > 0 ? late : 0) as Micros;
}
