import { INGRESS_REQUESTS_MAX } from "@tutti/protocol";
import { type ActorKey, type Instant, ALWAYS, after, millis, type ThreadId } from "@tutti/units";

/** Gaps remembered per lane. More than that is a broken connection, and ends with a new lease or a new ingress. */
const GAPS_MAX = 64;
/** What was asked for so often and did not come is no longer held by its ingress. */
const ASKINGS_MAX = 4;
/**
 * Whoever wakes reads the heartbeats of all its sleep at once, and would have asked for the last time before the first
 * answer can be here.
 */
const ASK_AGAIN_AFTER = millis(5);

/** By how much less clocks of two hosts differ. */
const CLOCKS_DIFFER = millis(20);

interface Gap {
  readonly from: number;
  readonly to: number;
  askings: number;
  askedAt: Instant;
}
interface Lane {
  term: number;
  next: number;
  /** As it was when a heartbeat came that counted, and when that was. */
  nextAtBeat: number;
  beatAt: Instant;
  /** Half-open ranges that have not come. */
  gaps: Gap[];
}
export interface MissedRange {
  readonly from: number;
  readonly to: number;
}
/** `last`: the greatest number that was sent of a thread under that term. */
export interface SentUntil {
  readonly thread: ThreadId;
  readonly term: number;
  readonly last: number;
  readonly sentAt: Instant;
}
export type ArrivalVerdict = "fresh" | "repeated" | MissedRange;

/**
 * The order of arrivals per (ingress, thread): tells repeated ones from fresh ones, and notices what was lost on the
 * way.
 */
export class ArrivalOrder {
  readonly #lanes = new Map<ActorKey, Map<ThreadId, Lane>>();

  /** An arrival came with this number; a range means that it is fresh and that those before it are missing. */
  note(ingress: ActorKey, thread: ThreadId, term: number, arrivalSeq: number): ArrivalVerdict {
    const lane = this.#lane(ingress, thread, term);
    if (term < lane.term) return "repeated";
    if (arrivalSeq === lane.next) {
      lane.next++;
      return "fresh";
    }
    // What was lost on the way can't be asked for, if there ever was so much.
    if (arrivalSeq - lane.next > INGRESS_REQUESTS_MAX) return "repeated";
    if (arrivalSeq < lane.next) return takeFromGap(lane, arrivalSeq) ? "fresh" : "repeated";
    const missed = { from: lane.next, to: arrivalSeq };
    addGap(lane, missed);
    lane.next = arrivalSeq + 1;
    return missed;
  }

  /** A heartbeat says what was sent until then: what to ask for now, the oldest gap first. */
  missing(ingress: ActorKey, { thread, term, last, sentAt }: SentUntil, now: Instant): MissedRange | undefined {
    const lane = this.#lane(ingress, thread, term);
    if (term < lane.term) return undefined;
    // What had come when an earlier heartbeat came was sent before this one, if this one was sent after that: numbers
    // beyond it are nobody's, and would pass for what is still to come. Heartbeats may come late, and not in order.
    const isLater = sentAt > after(lane.beatAt, CLOCKS_DIFFER);
    if (isLater && last + 1 < lane.nextAtBeat) {
      lane.next = last + 1;
      lane.gaps = lane.gaps.filter(({ from }) => from < lane.next);
    }
    if (lane.next <= last && last - lane.next <= INGRESS_REQUESTS_MAX) {
      addGap(lane, { from: lane.next, to: last + 1 });
      lane.next = last + 1;
    }
    if (isLater) [lane.nextAtBeat, lane.beatAt] = [lane.next, now];
    // Given up only when the answer to the last asking has had its time: what comes for a gap that is forgotten would
    // pass for a repetition.
    const isOver = ({ askings, askedAt }: Gap): boolean =>
      askings >= ASKINGS_MAX && now >= after(askedAt, ASK_AGAIN_AFTER);
    while (lane.gaps[0] !== undefined && isOver(lane.gaps[0])) lane.gaps.shift();
    const gap = lane.gaps[0];
    if (gap === undefined || now < after(gap.askedAt, ASK_AGAIN_AFTER)) return undefined;
    gap.askings++;
    gap.askedAt = now;
    return gap;
  }

  forgetIngress(ingress: ActorKey): void {
    this.#lanes.delete(ingress);
  }
  forgetThread(thread: ThreadId): void {
    for (const lanes of this.#lanes.values()) lanes.delete(thread);
  }

  #lane(ingress: ActorKey, thread: ThreadId, term: number): Lane {
    let lanes = this.#lanes.get(ingress);
    if (lanes === undefined) this.#lanes.set(ingress, (lanes = new Map()));
    let lane = lanes.get(thread);
    if (lane === undefined || term > lane.term)
      lanes.set(thread, (lane = { term, next: 1, nextAtBeat: 1, beatAt: ALWAYS, gaps: [] }));
    return lane;
  }
}

function addGap(lane: Lane, range: MissedRange): void {
  if (lane.gaps.length < GAPS_MAX) lane.gaps.push({ ...range, askings: 0, askedAt: ALWAYS });
}

function takeFromGap(lane: Lane, arrivalSeq: number): boolean {
  const index = lane.gaps.findIndex((gap) => arrivalSeq >= gap.from && arrivalSeq < gap.to);
  const gap = lane.gaps[index];
  if (gap === undefined) return false;
  const parts = [
    { ...gap, to: arrivalSeq },
    { ...gap, from: arrivalSeq + 1 },
  ].filter((part) => part.from < part.to);
  lane.gaps.splice(index, 1, ...parts);
  return true;
}
