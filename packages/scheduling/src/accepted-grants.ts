/**
 * The grants that a model has accepted lately. None is accepted twice, nor after a newer one of its accelerator has
 * overtaken it: M3 of model-thread.ts.
 *
 *   OG1. Only a valid grant can be accepted, and moments don't go back. So a grant is forgotten once it and all grants
 *        accepted before it are past their validUntil. A model remembers the grants of some round trips, however many
 *        accelerators there are.
 *   OG2. Entries are at most four times the accelerators, or ROOM.
 *   OG3. A ranker whose d_ctrl has just fallen to less than half gives a later grant an earlier end, so an older one
 *        may be valid when the newer one is forgotten. So the latest sending time of the forgotten ones is kept, and a
 *        grant that its ranker sent no later is not accepted. That costs nothing: while d_ctrl doesn't fall such a
 *        grant isn't valid any more, and a grant that isn't accepted counts as lost.
 */
import type { Instant } from "@tutti/units";
import type { Grant } from "./messages.ts";

/** Numbers of an entry: accelerator, epoch, sequence, time until which it is remembered, and sending time. */
const WIDTH = 5;
const ROOM = 8;

export class AcceptedGrants {
  #entries: Float64Array = new Float64Array(WIDTH * ROOM);
  /** Offsets of the oldest entry and of the end of the newest. */
  #first = 0;
  #end = 0;
  /** OG3: the last epoch of the forgotten grants, and their latest sending time in it. */
  #forgottenEpoch = -1;
  #forgottenSentAt = -Infinity;

  /** Number of entries: more than remembered grants, since an accelerator may have several. */
  get size(): number {
    return (this.#end - this.#first) / WIDTH;
  }

  /**
   * Accepts a grant and remembers it. @returns false if it is no newer than the last accepted one of its accelerator
   * and epoch
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

  /** Makes room in place of forgotten entries; if they are few, also of entries that a newer one has replaced. */
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
