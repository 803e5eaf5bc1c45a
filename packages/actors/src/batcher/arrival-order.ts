import type { ActorKey, ThreadId } from "@tutti/units";

/** Gaps remembered per lane. More than that is a broken connection, and ends with a new lease or a new ingress. */
const GAPS_MAX = 64;
/** What was asked for so often and did not come is no longer held by its ingress. */
const ASKINGS_MAX = 4;

interface Gap {
  readonly from: number;
  readonly to: number;
  askings: number;
}
interface Lane {
  term: number;
  next: number;
  /** Half-open ranges that have not come. */
  gaps: Gap[];
}
export interface MissedRange {
  readonly from: number;
  readonly to: number;
}
export type ArrivalVerdict = "fresh" | "repeated" | MissedRange;

/** The order of arrivals per (ingress, thread): tells repeated ones from fresh ones, and notices what was lost on the way. */
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
    if (arrivalSeq < lane.next) return takeFromGap(lane, arrivalSeq) ? "fresh" : "repeated";
    const missed = { from: lane.next, to: arrivalSeq };
    addGap(lane, missed);
    lane.next = arrivalSeq + 1;
    return missed;
  }

  /** A heartbeat says that arrivals up to `last` were sent: what to ask for, the oldest gap first. */
  missing(ingress: ActorKey, thread: ThreadId, term: number, last: number): MissedRange | undefined {
    const lane = this.#lane(ingress, thread, term);
    if (term < lane.term) return undefined;
    if (lane.next <= last) {
      addGap(lane, { from: lane.next, to: last + 1 });
      lane.next = last + 1;
    }
    // Given up only when the answer to the last asking has had its time: what comes for a gap that is forgotten would pass for a repetition.
    while (lane.gaps[0] !== undefined && lane.gaps[0].askings >= ASKINGS_MAX) lane.gaps.shift();
    const gap = lane.gaps[0];
    if (gap !== undefined) gap.askings++;
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
    if (lane === undefined || term > lane.term) lanes.set(thread, (lane = { term, next: 1, gaps: [] }));
    return lane;
  }
}

function addGap(lane: Lane, range: MissedRange): void {
  if (lane.gaps.length < GAPS_MAX) lane.gaps.push({ ...range, askings: 0 });
}

function takeFromGap(lane: Lane, arrivalSeq: number): boolean {
  const index = lane.gaps.findIndex((gap) => arrivalSeq >= gap.from && arrivalSeq < gap.to);
  const gap = lane.gaps[index];
  if (gap === undefined) return false;
  const parts = [
    { from: gap.from, to: arrivalSeq, askings: gap.askings },
    { from: arrivalSeq + 1, to: gap.to, askings: gap.askings },
  ].filter((part) => part.from < part.to);
  lane.gaps.splice(index, 1, ...parts);
  return true;
}
