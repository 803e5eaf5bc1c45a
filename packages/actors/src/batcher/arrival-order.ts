import { INGRESS_REQUESTS_MAX } from "@tutti/protocol";
import { type ActorKey, type Instant, ALWAYS, after, millis, type ThreadId } from "@tutti/units";

/** Gaps remembered per lane. More gaps mean a broken connection, which ends with a new lease or a new ingress. */
const GAPS_MAX = 64;
/** Attempts per gap. The ingress no longer holds an arrival that did not come after so many. */
const ASKINGS_MAX = 4;
/**
 * Interval between two attempts for one gap.
 * A process that wakes reads all heartbeats of its sleep at once, and would otherwise use up its attempts before the
 * first answer can arrive.
 */
const ASK_AGAIN_AFTER = millis(5);

/** Upper bound of the clock difference between two hosts. */
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
  /** Value of `next` when the last heartbeat that counted came, and the time of that heartbeat. */
  nextAtBeat: number;
  beatAt: Instant;
  /** Half-open ranges of numbers that have not arrived. */
  gaps: Gap[];
}
export interface MissedRange {
  readonly from: number;
  readonly to: number;
}
/** Last arrival sent. `last` is the greatest number that the ingress sent for a thread under that term. */
export interface SentUntil {
  readonly thread: ThreadId;
  readonly term: number;
  readonly last: number;
  readonly sentAt: Instant;
}
export type ArrivalVerdict = "fresh" | "repeated" | MissedRange;

/**
 * Order of arrivals per (ingress, thread). It tells repeated arrivals from fresh ones, and notices arrivals that were
 * lost on the way.
 */
export class ArrivalOrder {
  readonly #lanes = new Map<ActorKey, Map<ThreadId, Lane>>();

  /**
   * Records the arrival of a number. A returned range means that the arrival is fresh and that the range before it is
   * missing.
   */
  note(ingress: ActorKey, thread: ThreadId, term: number, arrivalSeq: number): ArrivalVerdict {
    const lane = this.#lane(ingress, thread, term);
    if (term < lane.term) return "repeated";
    if (arrivalSeq === lane.next) {
      lane.next++;
      return "fresh";
    }
    // A gap wider than an ingress can hold is not a real gap, and its arrivals can't be asked for.
    if (arrivalSeq - lane.next > INGRESS_REQUESTS_MAX) return "repeated";
    if (arrivalSeq < lane.next) return takeFromGap(lane, arrivalSeq) ? "fresh" : "repeated";
    const missed = { from: lane.next, to: arrivalSeq };
    addGap(lane, missed);
    lane.next = arrivalSeq + 1;
    return missed;
  }

  /**
   * Handles a heartbeat, which says what was sent until then. Returns the range to ask for now, the oldest gap first.
   */
  missing(ingress: ActorKey, { thread, term, last, sentAt }: SentUntil, now: Instant): MissedRange | undefined {
    const lane = this.#lane(ingress, thread, term);
    if (term < lane.term) return undefined;
    // Numbers seen before an earlier heartbeat were sent before a later heartbeat. If they exceed its `last`, no
    // request has them: forget them, or later arrivals would pass for repeated ones. Heartbeats may come late and out
    // of order.
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
    // Give a gap up only after the answer to the last attempt has had its time: an arrival for a forgotten gap would
    // pass for a repeated one.
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
