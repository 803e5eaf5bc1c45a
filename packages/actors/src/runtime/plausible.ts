/**
 * Checks whether the instants and durations in a message are plausible. Fixed messages are checked as they are read,
 * but the codec accepts every instant, also infinite ones and those of another century. Accepted once, such a number
 * would stay in a heap, an average or a plan (T8).
 */
import {
  type BatchDispatched,
  type BatchFinished,
  type CandidateOffered,
  type GpuFreed,
  type GpuGranted,
  type GrantAnswered,
  type JobOffered,
  type RequestArrived,
  type RequestCosts,
  SLO_US_MAX,
  TYPES_MAX,
} from "@tutti/protocol";
import { type Instant, type Micros, isJobThread, seconds } from "@tutti/units";

/** The longest deadline, and as much again for clocks that differ and messages that are late. */
const HORIZON = 2 * SLO_US_MAX;

/**
 * Longest validity of a grant: four times the way there, which is some milliseconds. For that long a grant keeps older
 * ones of its accelerator from being accepted.
 */
const GRANT_VALID_FOR = seconds(4);

const isNear = (at: Instant, now: Instant): boolean => at - now <= HORIZON && now - at <= HORIZON;
const isShort = (time: Micros): boolean => time <= HORIZON;

/** An empty offer names no instants. */
function isCandidate({ batchSize, execAt, latest, delay, unfit }: CandidateOffered, now: Instant): boolean {
  if (unfit.length > TYPES_MAX) return false;
  return batchSize === 0 || (isNear(execAt, now) && isNear(latest, now) && isShort(delay));
}

/** Checks for `ActorRuntime.onPacked`. */
export const plausible = (clock: () => Instant) => ({
  arrival({ arrivedAt, deadline, slo }: RequestArrived): boolean {
    const now = clock();
    return isNear(arrivedAt, now) && isNear(deadline, now) && isShort(slo);
  },
  costs({ steps }: RequestCosts): boolean {
    const now = clock();
    return steps.every(({ deadline }) => isNear(deadline, now));
  },
  candidate: (offered: CandidateOffered): boolean => isCandidate(offered, clock()),
  /** Their run time tells jobs from requests, which have none. */
  jobs: (offered: JobOffered): boolean =>
    offered.takes > 0 && isShort(offered.takes) && isCandidate(offered, clock()) && isJobThread(offered.thread),
  grant({ freeAt, sentAt, validUntil }: GpuGranted): boolean {
    const now = clock();
    return isNear(freeAt, now) && isNear(sentAt, now) && validUntil - now <= GRANT_VALID_FOR;
  },
  /** A free time in the past is always plausible. */
  answer: ({ freeAt }: GrantAnswered): boolean => freeAt - clock() <= HORIZON,
  freed: ({ freeAt }: Pick<GpuFreed, "freeAt">): boolean => freeAt - clock() <= HORIZON,
  /** `frontrun` may be ALWAYS. */
  batch({ validUntil, grantedAt, sentAt, startAt, latest, expectedRun }: BatchDispatched): boolean {
    const now = clock();
    const isSoon = isNear(validUntil, now) && isNear(startAt, now) && isNear(latest, now) && isShort(expectedRun);
    return isSoon && isNear(grantedAt, now) && isNear(sentAt, now);
  },
  finished({ grantedAt, receivedAt, readyAt, startedAt, finishedAt, run }: BatchFinished): boolean {
    const now = clock();
    const isRun = isNear(startedAt, now) && isNear(finishedAt, now) && isShort(run);
    return isRun && isNear(grantedAt, now) && isNear(receivedAt, now) && isNear(readyAt, now);
  },
});
