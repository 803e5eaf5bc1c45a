/**
 * The grants that a model obeyed lately, so that none is obeyed twice, nor one that a newer one of its accelerator has
 * overtaken: M3 of model-thread.ts.
 *
 *   OG1. Only what is valid still can be obeyed, and moments don't go back: a grant is forgotten once it and all obeyed
 *        before it are past their validUntil. So a model remembers what it was granted within some round trips, however
 *        many accelerators there are.
 *   OG2. Entries are at most four times the accelerators, or ROOM.
 *   OG3. Where its idea of d_ctrl has just fallen to less than half, a ranker gives a later grant an earlier end, and
 *        an older one may be valid when the newer one is forgotten. So of the forgotten ones the latest moment of
 *        sending is kept: what its ranker sent no later than that is not obeyed. That costs nothing: while d_ctrl
 *        doesn't fall such a grant isn't valid any more, and a grant that isn't obeyed is as one that was lost.
 */
import type { Instant } from "@tutti/units";
import type { Grant } from "./messages.ts";

/**
 * Numbers of an entry: accelerator, epoch, sequence, the moment until which it is remembered, and that of its sending.
 */
const WIDTH = 5;
const ROOM = 8;

export class AcceptedGrants {
  #entries: Float64Array = new Float64Array(WIDTH * ROOM);
  /** The oldest, and the end of the newest. */
  #first = 0;
  #end = 0;
  /** OG3: of those forgotten, the last epoch, and in it the latest moment of sending. */
  #forgottenEpoch = -1;
  #forgottenSentAt = -Infinity;

  /** Entries: more than grants are remembered, since an accelerator may have several. */
  get size(): number {
    return (this.#end - this.#first) / WIDTH;
  }

  /**
   * False for a grant that is no newer than the last one obeyed of its accelerator in its epoch; else that is it now.
   */
  obey(at: Instant, { gpu, epoch, grantSeq, validUntil, sentAt }: Grant): boolean {
    const entries = this.#entries;
    while (this.#first < this.#end && entries[this.#first + 3]! < at) this.#forgetFirst();
    if (epoch === this.#forgottenEpoch && sentAt <= this.#forgottenSentAt) return false; // OG3
    for (let i = this.#end - WIDTH; i >= this.#first; i -= WIDTH) {
      if (entries[i] !== gpu) continue;
      // Sequences start again with the epoch.
      if (entries[i + 1] === epoch && grantSeq <= entries[i + 2]!) return false;
      break;
    }
    this.#push(gpu, epoch, grantSeq, validUntil, sentAt);
    return true;
  }

  #forgetFirst(): void {
    const epoch = this.#entries[this.#first + 1]!;
    const sentAt = this.#entries[this.#first + 4]!;
    if (epoch !== this.#forgottenEpoch || sentAt > this.#forgottenSentAt) this.#forgottenSentAt = sentAt;
    this.#forgottenEpoch = epoch;
    this.#first += WIDTH;
  }

  #push(gpu: number, epoch: number, grantSeq: number, until: number, sentAt: number): void {
    if (this.#first === this.#end) this.#first = this.#end = 0;
    if (this.#end === this.#entries.length) this.#makeRoom();
    const entries = this.#entries;
    const i = this.#end;
    entries[i] = gpu;
    entries[i + 1] = epoch;
    entries[i + 2] = grantSeq;
    entries[i + 3] = until;
    entries[i + 4] = sentAt;
    this.#end += WIDTH;
  }

  /** Forgotten ones make room; where they are few, so do those that a newer one of their accelerator has replaced. */
  #makeRoom(): void {
    const entries = this.#entries;
    if (2 * (this.#end - this.#first) <= entries.length) {
      entries.copyWithin(0, this.#first, this.#end);
      this.#end -= this.#first;
      this.#first = 0;
      return;
    }
    const seen = new Set<number>();
    let kept = entries.length;
    for (let i = this.#end - WIDTH; i >= this.#first; i -= WIDTH) {
      if (seen.has(entries[i]!)) continue;
      seen.add(entries[i]!);
      kept -= WIDTH;
      entries.copyWithin(kept, i, i + WIDTH);
    }
    this.#end = entries.length - kept;
    this.#first = 0;
    this.#entries = 2 * this.#end > entries.length ? new Float64Array(2 * entries.length) : entries;
    this.#entries.set(entries.subarray(kept));
  }
}
