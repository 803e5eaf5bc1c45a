/** The work of `tutti jobs submit`: files become jobs, and answers files, both at once. */
import { readFile } from "node:fs/promises";
import { setTimeout as pass } from "node:timers/promises";
import { CommandError } from "@tutti/admin";
import { type InferResult, type Job, type SubmitOptions, type TensorInput, TuttiError } from "@tutti/client";
import type { ModelSpec } from "@tutti/protocol";
import { readInput } from "./input-file.ts";
import { type JobFile, type ResultFormat, hasResult, jobIdOfFile, writeResult } from "./job-files.ts";
import type { JobProgress } from "./job-progress.ts";

/** Jobs that are on their way into the queue at once. */
const SUBMITTING = 32;
/** Results that are waited for at once; the others are stored meanwhile, and read when their turn comes. */
const AWAITED = 512;
/** Pause after which a queue that is full, or away, is asked again. */
const RETRY_MS = 1_000;

/** A client's jobs. */
export interface ClientJobs {
  job(model: string, id: string, options: { readonly app: string }): Pick<Job, "peek">;
  submit(
    model: string,
    inputs: Readonly<Record<string, TensorInput>>,
    options: SubmitOptions,
  ): Promise<Pick<Job, "result">>;
}

export interface SubmissionForm {
  readonly app: string;
  readonly format: ResultFormat;
  /** Ends as soon as all jobs are in the queue, and writes nothing. */
  readonly isDetached: boolean;
  readonly outputs: string | undefined;
  readonly deadline: string | undefined;
}

/**
 * Results are written while files are submitted: a queue that takes nothing for days, because the application's share
 * of the results is full, keeps no result from its file.
 */
export class JobSubmission {
  readonly #jobs: ClientJobs;
  readonly #spec: ModelSpec;
  readonly #form: SubmissionForm;
  readonly #progress: JobProgress;
  readonly #awaited = new Pool(AWAITED);
  #fullUntilMs = 0;

  constructor(jobs: ClientJobs, spec: ModelSpec, form: SubmissionForm, progress: JobProgress) {
    this.#jobs = jobs;
    this.#spec = spec;
    this.#form = form;
    this.#progress = progress;
  }

  /** Failures of single files are the progress's to tell. */
  async run(files: readonly JobFile[]): Promise<void> {
    // Those that find the queue full come last, so that they don't hold up files that have results already.
    const later: JobFile[] = [];
    await eachOf(files, SUBMITTING, (file) =>
      this.#watch(file, async () => {
        if ((await this.#offer(file)) === "full") later.push(file);
      }),
    );
    await eachOf(later, SUBMITTING, (file) =>
      this.#watch(file, async () => {
        while ((await this.#offer(file)) === "full") await pass(Math.max(1, this.#fullUntilMs - performance.now()));
      }),
    );
    await this.#awaited.idle();
  }

  async #watch(file: JobFile, step: () => Promise<void>): Promise<void> {
    await this.#progress.watch(file.path, step);
  }

  async #offer(file: JobFile): Promise<"settled" | "full"> {
    const { app, outputs, format } = this.#form;
    const model = this.#spec.name;
    const id = jobIdOfFile(await readFile(file.path), { app, model, outputs });
    if (await hasResult(file.out, id, format)) {
      this.#progress.found();
      return "settled";
    }
    for (;;) {
      let isRead = false;
      try {
        const result = await this.#jobs.job(model, id, { app }).peek();
        isRead = true;
        // One that failed is tried again.
        if (result !== undefined && !(result instanceof TuttiError)) {
          this.#progress.submitted();
          if (!this.#form.isDetached) await this.#write(file, id, result);
          return "settled";
        }
        if (performance.now() < this.#fullUntilMs) return "full";
        const job = await this.#submit(file, id);
        this.#progress.submitted();
        if (!this.#form.isDetached)
          this.#awaited.add(() => this.#watch(file, async () => this.#write(file, id, await job.result())));
        return "settled";
      } catch (error) {
        // The same id again is the same job, so trying again is safe.
        if (!(error instanceof TuttiError) || !error.retryable) throw error;
        this.#progress.waits(error.message);
        const pauseMs = error.retryAfterMs ?? RETRY_MS;
        // Where no result can be read, no other file has an easier time.
        if (!isRead) await pass(pauseMs);
        else {
          this.#fullUntilMs = performance.now() + pauseMs;
          return "full";
        }
      }
    }
  }

  async #submit(file: JobFile, id: string): Promise<Pick<Job, "result">> {
    const { app, deadline, outputs } = this.#form;
    const input = await readInput(file.path, this.#spec);
    if (input.kind === "frames")
      throw new CommandError("a sound whose frames need one another's results is no job: `tutti infer` asks for it");
    return this.#jobs.submit(this.#spec.name, input.inputs, {
      id,
      app,
      ...(deadline !== undefined && { deadline }),
      ...(outputs !== undefined && { outputs: outputs.split(",") }),
    });
  }

  async #write({ path, out }: JobFile, id: string, { model, version, outputs }: InferResult): Promise<void> {
    const about = { id, file: path, model, ...(version !== undefined && { version }) };
    await writeResult(out, about, { outputs, format: this.#form.format });
    this.#progress.done();
  }
}

/** Works through the list with so many at once; the first rejection ends it. */
async function eachOf<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: Math.min(atOnce, items.length) }, async () => {
      for (const item of left) await work(item);
    }),
  );
}

/** Works on what comes with so many at once, in the order in which it came. */
class Pool {
  readonly #atOnce: number;
  #waiting: (() => Promise<void>)[] = [];
  #next = 0;
  readonly #workers = new Set<Promise<void>>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** @param work - must not reject */
  add(work: () => Promise<void>): void {
    this.#waiting.push(work);
    if (this.#workers.size >= this.#atOnce) return;
    const worker = this.#work().finally(() => this.#workers.delete(worker));
    this.#workers.add(worker);
  }

  async idle(): Promise<void> {
    while (this.#workers.size > 0) await Promise.all(this.#workers);
  }

  async #work(): Promise<void> {
    for (let work = this.#take(); work !== undefined; work = this.#take()) await work();
  }

  #take(): (() => Promise<void>) | undefined {
    if (this.#next < this.#waiting.length) return this.#waiting[this.#next++];
    [this.#waiting, this.#next] = [[], 0];
    return undefined;
  }
}
