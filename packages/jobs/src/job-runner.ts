import { type Actor, type ActorConfig, type ActorPorts, ActorRuntime, Catalog } from "@tutti/actors";
import type { JobQueue, QueuedJob, StoredResult } from "@tutti/ports/jobs";
import {
  HEADER,
  JOB_DEADLINE_US_MAX,
  JOB_HEADER,
  MODELS_MAX,
  type ReplyScope,
  TuttiError,
  deadJobSubject,
  errorBody,
  isModelName,
  isName,
  resultSubject,
} from "@tutti/protocol";
import { seconds } from "@tutti/units";
import { AppShares } from "./app-shares.ts";
import { FailureCounts } from "./failure-counts.ts";
import { fateOf, isFailure } from "./job-fate.ts";
import { JobFigures } from "./job-figures.ts";
import { JobIntake } from "./job-intake.ts";
import { JobRequests } from "./job-requests.ts";
import { type JobTerms, type UnusableJob, readTerms } from "./job-terms.ts";
import { messageBytes } from "./message-bytes.ts";
import { jobWindow } from "./job-window.ts";
import { InputRoom, ModelJobs } from "./model-jobs.ts";
import { ResultNotes } from "./result-notes.ts";
import { UnburiedJobs } from "./unburied-jobs.ts";

export interface JobRunnerPorts extends ActorPorts {
  readonly jobs: JobQueue;
}
export interface JobRunnerConfig extends ActorConfig {
  /** Where receipts may go: below the application's own inbox, or below any. */
  readonly replyScope: ReplyScope;
}

/** Bytes of inputs that one runner holds at once; beyond, jobs stay in the queue. */
const JOB_INPUT_BYTES_MAX = 268_435_456;
const LOOK_EVERY = seconds(1);
/** A third of the time after which the queue delivers a job again (ACK_WAIT_MS). */
const EXTEND_EVERY = seconds(10);
/** Looks at what is kept: results and dead letters. */
const LOOK_AT_KEPT_EVERY = seconds(10);
/**
 * Pause of a runner whose result or dead letter could not be stored, perhaps for want of room: whatever it ran
 * meanwhile would be thrown away too.
 */
const STORE_PAUSE_MS = 30_000;
/** Pause of a job whose application has no room for its result or its dead letter. */
const NO_ROOM_PAUSE_MS = 60_000;

/**
 * The job runner: brings jobs from the durable queue to the ingresses, and their answers to the results.
 *
 *   JOB-1. A job is acknowledged only after its result or its dead letter is stored, so a runner, a server or an
 *          executor that dies loses none.
 *   JOB-2. A result is stored under the job's id: a job that runs twice overwrites its own result, and one that has a
 *          result is not run again.
 */
export function createJobRunner(ports: JobRunnerPorts, config: JobRunnerConfig, ready: () => void): Actor {
  const runner = new JobRunner(ports, config);
  runner.open(ready);
  return { role: "jobs", key: config.key, drain: (done) => runner.drain(done) };
}

class JobRunner {
  readonly #ports: JobRunnerPorts;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #requests: JobRequests;
  readonly #intake: JobIntake;
  readonly #room = new InputRoom(JOB_INPUT_BYTES_MAX);
  readonly #models = new Map<string, ModelJobs>();
  readonly #figures = new JobFigures();
  readonly #shares = new AppShares();
  readonly #notes: ResultNotes;
  readonly #held = new Set<QueuedJob>();
  readonly #timers: { stop(): void }[] = [];
  readonly #totals = { done: 0, again: 0, dead: 0 };
  readonly #failures = new FailureCounts();
  readonly #unburied = new UnburiedJobs();
  #pausedUntilMs = 0;
  #isOpen = false;
  #isLooking = false;
  #isLookingAtKept = false;
  #isLeaving = false;

  constructor(ports: JobRunnerPorts, config: JobRunnerConfig) {
    this.#ports = ports;
    this.#runtime = new ActorRuntime(ports, config, {
      role: "jobs",
      listensTo: ["executor", "jobs"],
      stats: () => ({ figures: this.#stats() }),
    });
    this.#catalog = new Catalog(ports.store, this.#runtime.log, { onChange: () => undefined });
    this.#notes = new ResultNotes(ports.jobs, this.#shares);
    const randomToken = (): string => Buffer.from(ports.randomBytes(12)).toString("hex");
    this.#requests = new JobRequests(ports.bulk, randomToken);
    this.#intake = new JobIntake(
      { bus: ports.bulk, queue: ports.jobs, shares: this.#shares, randomId: randomToken },
      config.replyScope,
    );
  }

  open(ready: () => void): void {
    const { clock } = this.#ports;
    this.#runtime.open();
    this.#catalog.open(ready);
    this.#intake.open();
    void this.#look();
    this.#timers.push(
      clock.every(LOOK_EVERY, () => {
        this.#requests.expire(Date.now());
        this.#figures.tick();
        void this.#look();
      }),
      clock.every(LOOK_AT_KEPT_EVERY, () => this.#isOpen && void this.#lookAtKept()),
      clock.every(EXTEND_EVERY, () => {
        for (const job of this.#held) job.extend();
      }),
    );
  }

  /** Gives the jobs back, so that another runner has them at once. */
  drain(done: () => void): void {
    this.#isLeaving = true;
    for (const timer of this.#timers) timer.stop();
    for (const model of this.#models.values()) model.stop();
    this.#requests.close();
    for (const job of this.#held) job.retry(0);
    this.#held.clear();
    this.#catalog.close();
    void this.#notes.note().catch(() => undefined); // what isn't noted isn't bounded
    this.#intake.drain(() => this.#runtime.close(done));
  }

  /** Looks which models have jobs. The queue is made at the first look that reaches a server. */
  async #look(): Promise<void> {
    if (this.#isLooking || this.#isLeaving || !this.#ports.bulk.connected) return;
    this.#isLooking = true;
    try {
      if (!this.#isOpen) {
        await this.#ports.jobs.open();
        await this.#lookAtKept();
      }
      this.#isOpen = true;
      const { jobs: queued } = await this.#shares.lookAtQueue(() => this.#ports.jobs.queued());
      this.#figures.queued = queued;
      for (const [model, count] of queued) this.#jobsOf(model)?.look(count);
      for (const [model, jobs] of this.#models) {
        if (queued.has(model) || jobs.inFlight > 0) continue;
        jobs.stop();
        this.#models.delete(model);
        this.#figures.forget(model);
      }
    } catch (error) {
      this.#isOpen = false; // perhaps it was removed
      this.#runtime.log.warn({ error: (error as Error).message }, "the queue of jobs can't be read");
    }
    this.#isLooking = false;
  }

  /** Each look by itself: notes that can't be stored must not keep dead letters from being counted. */
  async #lookAtKept(): Promise<void> {
    if (this.#isLookingAtKept) return; // a server that answers slowly is asked once at a time
    this.#isLookingAtKept = true;
    const { jobs } = this.#ports;
    const looks = [
      ["results can't be noted", () => this.#notes.note()],
      ["results can't be counted", () => this.#shares.look("results", () => jobs.results())],
      [
        "dead letters can't be counted",
        async () => (this.#figures.letters = (await this.#shares.look("dead", () => jobs.dead())).letters),
      ],
    ] as const;
    for (const [failed, look] of looks) {
      try {
        await look();
      } catch (error) {
        this.#runtime.log.warn({ error: (error as Error).message }, failed);
      }
    }
    this.#isLookingAtKept = false;
  }

  /** @returns undefined while jobs of as many models as there may be are looked after (T7) */
  #jobsOf(model: string): ModelJobs | undefined {
    let jobs = this.#models.get(model);
    if (jobs === undefined) {
      if (this.#models.size >= MODELS_MAX) return undefined;
      jobs = new ModelJobs({
        model,
        queue: this.#ports.jobs,
        room: this.#room,
        log: this.#runtime.log,
        window: () => this.#windowOf(model),
        take: (job, ended) => void this.#run(job, ended),
      });
      this.#models.set(model, jobs);
      this.#figures.follow(model);
    }
    return jobs;
  }

  #windowOf(model: string): number {
    if (Date.now() < this.#pausedUntilMs) return 0;
    let [accelerators, runners] = [0, 1];
    for (const { gpus } of this.#runtime.registry.ofRole("executor")) accelerators += gpus?.length ?? 0;
    for (const _ of this.#runtime.registry.ofRole("jobs")) runners++; // others than this one
    return jobWindow(this.#catalog.target(model)?.spec.batchSizeMax, accelerators, runners);
  }

  async #run(job: QueuedJob, ended: () => void): Promise<void> {
    this.#held.add(job);
    try {
      await this.#settle(job);
    } catch (error) {
      this.#pausedUntilMs = Date.now() + STORE_PAUSE_MS;
      const why = { job: job.seq, error: (error as Error).message, pauseMs: STORE_PAUSE_MS };
      this.#runtime.log.warn(why, "a job's result could not be stored: the runner pauses");
      if (this.#held.has(job)) job.retry(STORE_PAUSE_MS);
    }
    this.#held.delete(job);
    ended();
  }

  async #settle(job: QueuedJob): Promise<void> {
    const { jobs } = this.#ports;
    const terms = readTerms(job);
    if ("error" in terms) return this.#bury(job, terms, terms.error);
    const place = resultSubject(terms.app, terms.model, terms.id);
    const earlier = await jobs.result(place);
    if (isGood(earlier)) return this.#done(job, terms);
    const failed = this.#unburied.get(job);
    if (failed !== undefined) return this.#bury(job, terms, failed.error);
    if (terms.deadlineAtMs <= Date.now())
      return this.#bury(
        job,
        terms,
        new TuttiError("TUTTI_DEADLINE_EXCEEDED", "the job's deadline passed in the queue"),
      );
    if (!this.#held.has(job)) return; // given back meanwhile
    if (!this.#shares.hasRoom("results", terms.app)) return this.#again(job, NO_ROOM_PAUSE_MS);
    const answer = await new Promise<StoredResult | TuttiError>((resolve) =>
      this.#requests.send(terms, job.payload, Date.now(), resolve),
    );
    if (answer instanceof TuttiError) return this.#refused(job, terms, answer);
    await jobs.storeResult(place, answer);
    this.#notes.stored(terms.app, messageBytes(answer));
    await this.#done(job, terms);
  }

  async #done(job: QueuedJob, { model }: JobTerms | UnusableJob): Promise<void> {
    await job.done();
    this.#forget(job);
    this.#totals.done++;
    this.#figures.done(model);
  }

  async #refused(job: QueuedJob, terms: JobTerms, error: TuttiError): Promise<void> {
    const failures = isFailure(error) ? this.#failures.note(job.seq) : 0;
    const fate = fateOf(error, { tries: job.tries, failures, leftMs: terms.deadlineAtMs - Date.now() });
    if (fate.kind === "dead") return this.#bury(job, terms, error);
    this.#again(job, fate.afterMs);
  }

  #again(job: QueuedJob, afterMs: number): void {
    this.#totals.again++;
    job.retry(afterMs);
  }

  /**
   * The operator finds the job among the dead letters, and its publisher the error where it waits for the result. The
   * letter comes first: without it the job would be lost where results have no room.
   */
  async #bury(job: QueuedJob, terms: JobTerms | UnusableJob, error: TuttiError): Promise<void> {
    const { model, app, id } = terms;
    const isNamed = isModelName(model) && isName(app);
    const place = resultSubject(app, model, id);
    // Another runner may have had this job meanwhile, with more luck.
    if (isNamed && isGood(await this.#ports.jobs.result(place))) return this.#done(job, terms);
    const hasRoom = this.#shares.hasRoom("dead", app);
    if (hasRoom) await this.#storeLetter(job, terms, error);
    let isTold = !isNamed || this.#unburied.get(job)?.isTold === true;
    // A failure that is told once is not told again: its publisher may have submitted the job anew meanwhile.
    if (!isTold && (hasRoom || this.#shares.hasRoom("results", app))) {
      await this.#storeFailure(place, app, error);
      isTold = true;
    }
    if (!hasRoom) {
      const leftMs = deadlineOf(job, terms) - Date.now();
      if (leftMs > 0 || !isTold) return this.#awaitRoom(job, { model, app, leftMs, failure: { error, isTold } });
    }
    await job.done();
    this.#forget(job);
    this.#totals.dead++;
    const given = { ...{ model, app, job: id, code: error.code, tries: job.tries }, reason: oneLine(error.message) };
    this.#runtime.log.warn(given, hasRoom ? "a job was given up" : "a job was given up without a dead letter");
  }

  async #storeLetter(job: QueuedJob, { model, app, id }: JobTerms | UnusableJob, error: TuttiError): Promise<void> {
    const headers = {
      ...ownHeaders(job),
      [JOB_HEADER.id]: id,
      [JOB_HEADER.deadCode]: error.code,
      [JOB_HEADER.deadReason]: oneLine(error.message),
      [JOB_HEADER.deadTries]: String(job.tries),
    };
    const letter = { headers, payload: job.payload };
    const bytes = messageBytes(letter);
    const subject = deadJobSubject(model, app, { code: error.code, bytes });
    this.#shares.add("dead", app, bytes);
    try {
      // A job that dies again after it was requeued is another letter: its number in the queue is another.
      await this.#ports.jobs.bury(subject, letter, `${id}.${job.seq}`);
    } finally {
      this.#shares.arrived("dead", app, bytes);
    }
  }

  async #storeFailure(place: string, app: string, error: TuttiError): Promise<void> {
    const payload = new TextEncoder().encode(JSON.stringify(errorBody(error)));
    const headers = { [HEADER.errorCode]: String(error.status), [HEADER.error]: oneLine(error.message) };
    await this.#ports.jobs.storeResult(place, { headers, payload });
    this.#notes.stored(app, messageBytes({ headers, payload }));
  }

  /** Without room for its letter the job waits in the queue until its deadline, does not run, and others go on. */
  #awaitRoom(job: QueuedJob, { model, app, leftMs, failure }: Waiting): void {
    if (this.#unburied.get(job) === undefined) {
      const { code } = failure.error;
      this.#runtime.log.warn({ model, app, job: job.seq, code }, "a failed job waits for room for its dead letter");
    }
    this.#unburied.note(job, failure);
    this.#again(job, leftMs > 0 ? Math.min(NO_ROOM_PAUSE_MS, leftMs) : NO_ROOM_PAUSE_MS);
  }

  #forget(job: QueuedJob): void {
    this.#failures.forget(job.seq);
    this.#unburied.forget(job);
  }

  #stats(): Record<string, number> {
    const own = { ...this.#totals, ...this.#intake.figures, inFlight: this.#held.size };
    return { ...own, ...this.#figures.report() };
  }
}

interface Waiting {
  readonly model: string;
  readonly app: string;
  /** Until the job's deadline. */
  readonly leftMs: number;
  readonly failure: { readonly error: TuttiError; readonly isTold: boolean };
}

/** A job whose deadline can't be read has the longest one. */
const deadlineOf = (job: QueuedJob, terms: JobTerms | UnusableJob): number =>
  "error" in terms ? job.submittedAtMs + JOB_DEADLINE_US_MAX / 1_000 : terms.deadlineAtMs;

const isGood = (result: StoredResult | undefined): boolean =>
  result !== undefined && !(HEADER.errorCode in result.headers);

/** Headers of the job itself: those of JetStream would be orders to the stream of dead letters. */
const ownHeaders = ({ headers }: QueuedJob): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !/^nats-/i.test(name)));

const REASON_LENGTH_MAX = 512;
/** A header is one line. */
const oneLine = (text: string): string => text.replaceAll(/[\r\n]+/g, " ").slice(0, REASON_LENGTH_MAX);
