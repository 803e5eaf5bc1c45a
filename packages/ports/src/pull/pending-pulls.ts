import type { PulledItem, PullRequest } from "@tutti/protocol";
import { type ActorKey, assert } from "@tutti/units";
import type { ReplyFrame } from "@tutti/wire";
import type { PullOutcome } from "./pull.ts";

/**
 * Most pulls in flight at one client; one more fails as unreachable. An executor has a few per batch that it has
 * accepted.
 */
export const PULLS_MAX = 4_096;

export interface Timer {
  stop(): void;
}
export type StartTimer = (delayMs: number, run: () => void) => Timer;

interface Pending {
  readonly peer: ActorKey;
  readonly seqs: readonly number[];
  readonly done: (outcome: PullOutcome) => void;
  readonly timer: Timer;
  /** Items received of a reply that comes in several frames, in the order of `seqs`. */
  readonly items: PulledItem[];
}

/**
 * Pulls that a client of any adapter waits for. Each is answered exactly once: by its reply, by a failure or by its
 * time-out.
 *
 *   PULL-1. `done` is called once, and never before the adapter's `pull` returned.
 *   PULL-2. A reply counts only from the peer that was asked, and only for the requests that were asked for, in their
 *           order.
 */
export class PendingPulls {
  readonly #startTimer: StartTimer;
  readonly #pending = new Map<number, Pending>();
  #correlation = 0;
  #closed = false;
  /** Number of replies that came too late, or that don't fit their pull. */
  strayReplies = 0;

  constructor(startTimer: StartTimer) {
    this.#startTimer = startTimer;
  }

  get size(): number {
    return this.#pending.size;
  }
  get isClosed(): boolean {
    return this.#closed;
  }

  /**
   * @returns the correlation to send with; undefined at the bound or when closed: `done` was not and will not be called
   */
  open(
    peer: ActorKey,
    seqs: PullRequest["seqs"],
    timeoutMs: number,
    done: (outcome: PullOutcome) => void,
  ): number | undefined {
    if (this.#closed || this.#pending.size >= PULLS_MAX) return undefined;
    do this.#correlation = (this.#correlation + 1) >>> 0;
    while (this.#pending.has(this.#correlation));
    const correlation = this.#correlation;
    const timer = this.#startTimer(timeoutMs, () => this.fail(correlation, "timeout"));
    this.#pending.set(correlation, { peer, seqs, done, timer, items: [] });
    return correlation;
  }

  has(correlation: number): boolean {
    return this.#pending.has(correlation);
  }

  /** True if a reply of that peer is due. O(n). */
  waitsFor(peer: ActorKey): boolean {
    for (const pull of this.#pending.values()) if (pull.peer === peer) return true;
    return false;
  }

  /** Takes a frame of a reply from `peer`. Its rows are borrowed: they are copied only if more frames are to come. */
  onReply(peer: ActorKey, reply: ReplyFrame): void {
    const pull = this.#pending.get(reply.correlation);
    if (pull === undefined || pull.peer !== peer) {
      this.strayReplies++;
      return;
    }
    if (reply.forbidden) return this.#settle(reply.correlation, { failure: "forbidden" });
    if (!continues(pull, reply)) {
      this.strayReplies++;
      return this.#settle(reply.correlation, { failure: "unreachable" });
    }
    if (reply.first === 0 && reply.items.length === pull.seqs.length)
      return this.#settle(reply.correlation, { items: reply.items });
    for (const { seq, row, traceparent } of reply.items)
      pull.items.push({ seq, row: row && new Uint8Array(row), traceparent });
    if (pull.items.length === pull.seqs.length) this.#settle(reply.correlation, { items: pull.items });
  }

  fail(correlation: number, failure: "timeout" | "unreachable" | "forbidden"): void {
    if (this.#pending.has(correlation)) this.#settle(correlation, { failure });
  }

  /** Fails the pulls that wait for `peer`. */
  failPeer(peer: ActorKey, failure: "unreachable"): void {
    for (const [correlation, pull] of [...this.#pending])
      if (pull.peer === peer) this.#settle(correlation, { failure });
  }

  /** Fails all pulls, and accepts no more. */
  close(): void {
    this.#closed = true;
    this.failAll();
  }

  failAll(): void {
    for (const correlation of [...this.#pending.keys()]) this.#settle(correlation, { failure: "unreachable" });
  }

  #settle(correlation: number, outcome: PullOutcome): void {
    const pull = this.#pending.get(correlation);
    if (pull === undefined) return;
    this.#pending.delete(correlation);
    pull.timer.stop();
    assert("failure" in outcome || outcome.items.length === pull.seqs.length, "a reply has an item for every request");
    pull.done(outcome);
  }
}

/** PULL-2: true if the frame continues where the last one ended, with the requests that were asked for. */
function continues(pull: Pending, { first, total, items }: ReplyFrame): boolean {
  if (first !== pull.items.length || total !== pull.seqs.length) return false;
  for (let i = 0; i < items.length; i++) if (items[i]!.seq !== pull.seqs[first + i]) return false;
  return items.length > 0 || total === 0;
}
