/**
 * The port to the durable queue of background jobs. A job stays in the queue until it is acknowledged: whoever fetched
 * it and died has it delivered again to another. All calls reject with an Error when the queue can't be reached.
 */

/** A job as it was delivered. Exactly one of `done` and `retry` ends this delivery. */
export interface QueuedJob {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  /** Its number in the queue. */
  readonly seq: number;
  /** When the queue took it, in milliseconds since 1970 by the queue's own clock. */
  readonly submittedAtMs: number;
  /** 1 at the first delivery. */
  readonly tries: number;
  /** Removes the job from the queue; resolves when the queue has confirmed it. */
  done(): Promise<void>;
  /** Delivers it again after so long. */
  retry(delayMs: number): void;
  /** The job is still being worked on: it is not delivered again meanwhile. Needed every few seconds. */
  extend(): void;
}

export interface StoredResult {
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Uint8Array;
}

/** A result at rest, with its number in the bucket: a newer result of the same job has a higher one. */
export interface KeptResult extends StoredResult {
  readonly revision: number;
}

/** A dead letter: its number, and the job with headers that say why it died. */
export interface DeadJob extends StoredResult {
  readonly subject: string;
  readonly seq: number;
  readonly diedAtMs: number;
}

/** The use of a stream. Bytes by application are rounded up. */
export interface StreamUse {
  readonly bytesFree: number;
  readonly bytesByApp: ReadonlyMap<string, number>;
}
export interface QueueUse extends StreamUse {
  /** Jobs by the model's name, in flight or not. */
  readonly jobs: ReadonlyMap<string, number>;
  /** The same by the model's name and then the application's. */
  readonly jobsByApp: ReadonlyMap<string, ReadonlyMap<string, number>>;
}
/** Dead letters of one model by the code of their last failure, without its prefix. */
export type LettersByCode = ReadonlyMap<string, number>;
export interface DeadUse extends StreamUse {
  /** Dead letters by the model's name. */
  readonly letters: ReadonlyMap<string, LettersByCode>;
}

export interface ModelBacklog {
  /** Jobs in the queue, those in flight included. */
  readonly queued: number;
  /** Jobs that runners have fetched and not acknowledged yet. */
  readonly inFlight: number;
}

export interface JobQueue {
  /** Makes the queue, the results' bucket and the place of dead letters, where they are missing. */
  open(): Promise<void>;
  queued(): Promise<QueueUse>;
  dead(): Promise<DeadUse>;
  /** The use of the results' bucket, as runners have noted it. */
  results(): Promise<StreamUse>;
  /** Notes that results of an application take so many bytes more, for as long as results are kept. */
  noteResults(app: string, bytes: number): Promise<void>;
  /** Lets runners together have so many jobs of a model at once, in flight or waiting for another try. */
  allow(model: string, pendingMax: number): Promise<void>;
  /**
   * Hands over up to `count` jobs of a model as they come; resolves when as many came, or after `waitMs`.
   * @returns how many came
   */
  fetch(
    model: string,
    options: { readonly count: number; readonly waitMs: number },
    onJob: (job: QueuedJob) => void,
  ): Promise<number>;
  /**
   * Puts a job into the queue, on disk. A second one with the same `messageId` is dropped.
   *
   * @throws {TuttiError} as a rejection: OVERLOADED if the queue is full, else UNAVAILABLE
   */
  enqueue(subject: string, job: StoredResult, messageId: string): Promise<{ readonly isDuplicate: boolean }>;
  /** Reads one result: its key is the subject that it is stored under. */
  result(subject: string): Promise<KeptResult | undefined>;
  storeResult(subject: string, result: StoredResult): Promise<void>;
  /**
   * Removes this result, unless a newer one was stored meanwhile.
   * @returns the number of its removal in the bucket
   */
  forgetResult(subject: string, revision: number): Promise<number | undefined>;
  /** Keeps a dead letter. A second one with the same `letterId` is dropped. */
  bury(subject: string, letter: StoredResult, letterId: string): Promise<void>;
}

/** The operator's side of the queue. */
export interface JobAdministration {
  /** Backlogs by the model's name, of models with jobs. */
  backlogs(): Promise<ReadonlyMap<string, ModelBacklog>>;
  dead(): Promise<DeadUse>;
  /**
   * The dead letters in the order of their deaths, each as it is read. Ends with the last one that was there at the
   * beginning, so that a reader who makes new letters comes to an end.
   */
  deadJobs(): AsyncIterable<DeadJob>;
  removeDead(seq: number): Promise<void>;
}
