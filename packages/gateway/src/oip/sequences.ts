/**
 * States of models between the requests of a sequence. A stateful model returns its state as an output and takes it as
 * an input; the last state of each sequence is kept here, in this gateway and nowhere else.
 *
 *   SEQ-1. Requests of one sequence run one after the other, in the order in which they came.
 *   SEQ-2. A request that fails leaves the state as it was, so that it may be sent again; a start that fails leaves
 *          none.
 *   SEQ-3. Nothing grows: a new sequence takes the place of the longest idle one of its own application, or is refused.
 */
import type { CancelSignal } from "@tutti/client";
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { SequenceStep } from "./request-terms.ts";

/** Sequences of one gateway, and of one application. */
export const SEQUENCES_MAX = 4_096;
export const APP_SEQUENCES_MAX = 1_024;
/** Bytes of all states together. */
export const SEQUENCES_BYTES_MAX = 268_435_456;
/** Requests of one sequence that wait for those before them, or run. */
export const SEQUENCE_WAITING_MAX = 256;
/** Time after which an idle sequence is forgotten, at the next request of any. */
const IDLE_MS = 60_000;

/** State of a sequence between two requests. */
export interface Progress {
  readonly state: Tensor;
  /** The version that returned it, and must take it; undefined: any. */
  readonly version: string | undefined;
}

export interface SequenceTurn {
  readonly app: string;
  readonly model: string;
  readonly step: SequenceStep;
  /** State before the first request. States of one model all have the same length. */
  readonly initial: Tensor;
  readonly signal: CancelSignal;
}

interface Sequence {
  readonly app: string;
  readonly bytes: number;
  /** Undefined: before the first answer, and after the last. */
  progress: Progress | undefined;
  waiting: number;
  /** Resolves when the last waiting request has run. */
  last: Promise<void>;
  usedAt: number;
}

export interface SequencesOptions {
  /** Clock, in milliseconds. */
  readonly now?: () => number;
  readonly sequencesMax?: number;
  readonly appMax?: number;
  readonly bytesMax?: number;
}

export class Sequences {
  readonly #now: () => number;
  readonly #sequencesMax: number;
  readonly #appMax: number;
  readonly #bytesMax: number;
  /** Least recently used first. */
  readonly #sequences = new Map<string, Sequence>();
  readonly #ofApp = new Map<string, number>();
  #bytes = 0;

  constructor(options: SequencesOptions = {}) {
    const { now, sequencesMax, appMax, bytesMax } = options;
    this.#now = now ?? (() => performance.now());
    this.#sequencesMax = sequencesMax ?? SEQUENCES_MAX;
    this.#appMax = appMax ?? APP_SEQUENCES_MAX;
    this.#bytesMax = bytesMax ?? SEQUENCES_BYTES_MAX;
  }

  get size(): number {
    return this.#sequences.size;
  }

  /**
   * Runs `use` once the earlier requests of its sequence have ended.
   *
   * @param use - gets the sequence's progress, and returns the next one
   * @throws {TuttiError} as a rejection: INVALID_INPUT for a sequence that is unknown and not begun, OVERLOADED,
   *   CANCELLED where the client disconnected while it waited
   */
  async run<Result>(
    turn: SequenceTurn,
    use: (at: Progress) => Promise<{ readonly result: Result; readonly next: Progress }>,
  ): Promise<Result> {
    const { app, model, step, initial, signal } = turn;
    const key = JSON.stringify([app, model, step.id]);
    this.#forgetIdle();
    const sequence = this.#sequences.get(key) ?? this.#begin(key, turn);
    if (sequence.waiting >= SEQUENCE_WAITING_MAX)
      throw overloaded(`${SEQUENCE_WAITING_MAX} requests of this sequence wait already (SEQUENCE_WAITING_MAX)`);
    const before = sequence.last;
    const { promise, resolve: done } = Promise.withResolvers<void>();
    sequence.last = promise;
    sequence.waiting++;
    try {
      await before;
      if (signal.aborted) throw new TuttiError("TUTTI_CANCELLED", "the client went away");
      if (step.isStart) sequence.progress = undefined;
      const at = step.isStart ? { state: initial, version: undefined } : sequence.progress;
      if (at === undefined) throw unknown(model, step);
      const { result, next } = await use(at);
      sequence.progress = step.isEnd ? undefined : next;
      return result;
    } finally {
      done();
      sequence.waiting--;
      this.#rest(key, sequence);
    }
  }

  /** @throws {TuttiError} INVALID_INPUT, OVERLOADED */
  #begin(key: string, { app, model, step, initial }: SequenceTurn): Sequence {
    if (!step.isStart) throw unknown(model, step);
    const bytes = initial.data.byteLength;
    while (!this.#hasRoom(app, bytes)) this.#forgetIdleOf(app);
    const sequence = { app, bytes, progress: undefined, waiting: 0, last: Promise.resolve(), usedAt: this.#now() };
    this.#sequences.set(key, sequence);
    this.#ofApp.set(app, (this.#ofApp.get(app) ?? 0) + 1);
    this.#bytes += bytes;
    return sequence;
  }

  /** After a request: forgets a sequence without a state and without waiting requests, else marks it as used. */
  #rest(key: string, sequence: Sequence): void {
    if (sequence.waiting === 0 && sequence.progress === undefined) return this.#forget(key, sequence);
    sequence.usedAt = this.#now();
    this.#sequences.delete(key);
    this.#sequences.set(key, sequence);
  }

  #hasRoom(app: string, bytes: number): boolean {
    const isCounted = this.#sequences.size < this.#sequencesMax && (this.#ofApp.get(app) ?? 0) < this.#appMax;
    return isCounted && this.#bytes + bytes <= this.#bytesMax;
  }

  /** @throws {TuttiError} OVERLOADED: none is idle */
  #forgetIdleOf(app: string): void {
    for (const [key, sequence] of this.#sequences)
      if (sequence.app === app && sequence.waiting === 0) return this.#forget(key, sequence);
    throw overloaded(
      "this gateway keeps as many sequences as it may (SEQUENCES_MAX, APP_SEQUENCES_MAX, SEQUENCES_BYTES_MAX), and none of this application is idle",
    );
  }

  #forgetIdle(): void {
    const before = this.#now() - IDLE_MS;
    for (const [key, sequence] of this.#sequences) {
      if (sequence.waiting > 0) continue;
      if (sequence.usedAt >= before) return;
      this.#forget(key, sequence);
    }
  }

  #forget(key: string, { app, bytes }: Sequence): void {
    this.#sequences.delete(key);
    this.#bytes -= bytes;
    const left = (this.#ofApp.get(app) ?? 0) - 1;
    if (left > 0) this.#ofApp.set(app, left);
    else this.#ofApp.delete(app);
  }
}

const unknown = (model: string, { id }: SequenceStep): TuttiError =>
  new TuttiError(
    "TUTTI_INVALID_INPUT",
    `"${model}": there is no sequence ${id.slice(0, 80)} here: begin it with sequence_start; it may have ended, been idle for ${IDLE_MS / 1_000} s, or be another gateway's`,
  );
const overloaded = (text: string): TuttiError => new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 1_000 });
