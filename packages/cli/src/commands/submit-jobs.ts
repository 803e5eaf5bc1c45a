import { readFile } from "node:fs/promises";
import { CommandError, EXIT, usageError } from "@tutti/admin";
import type { NatsConnection } from "@tutti/bus-nats";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { type InferResult, type Job, TuttiClient, TuttiError } from "@tutti/client";
import { ModelRegistry, askedSpec } from "@tutti/client/registries";
import { type ModelSpec, isModelName, isName, jobDeadline } from "@tutti/protocol";
import { readInput } from "../present/input-file.ts";
import {
  type JobFile,
  RESULT_FORMATS,
  type ResultFormat,
  hasResult,
  jobFiles,
  jobIdOfFile,
  writeResult,
} from "../present/job-files.ts";
import { JobProgress } from "../present/job-progress.ts";

export interface SubmitJobsOptions extends ClusterOptions {
  readonly model: string;
  readonly out: string;
  readonly deadline?: string;
  readonly app: string;
  readonly outputs?: string;
  readonly format: string;
  readonly detach?: boolean;
  readonly json?: boolean;
}

/** Jobs that are on their way into the queue at once. */
const SUBMITTING = 32;
/** Results that are waited for at once; the others are stored meanwhile, and read when their turn comes. */
const AWAITED = 512;
const FAILURES_SHOWN = 10;
/** Pause after which a queue that is full, or away, is asked again. */
const RETRY_MS = 1_000;

interface Pending {
  readonly file: JobFile;
  readonly job: Job;
}

/** `tutti jobs submit`: all files become jobs first; then their results are written as they come. */
export async function submitJobs(path: string, options: SubmitJobsOptions): Promise<void> {
  const { model, app, deadline } = options;
  if (!isModelName(model)) throw usageError(`--model ${model}: letters, digits, "-" and "_" only`);
  if (!isName(app)) throw usageError(`--app ${app}: letters, digits, "-" and "_" only`);
  if (deadline !== undefined) checkDeadline(deadline);
  formatOf(options);
  const files = await jobFiles(path, options.out);
  // With the operator's credentials: an application's may not list models.
  await withCluster({ ...options, name: "tutti-jobs", inboxPrefix: `_INBOX.${app}` }, (nats) =>
    submitAll(files, nats, options),
  );
}

async function submitAll(files: readonly JobFile[], nats: NatsConnection, options: SubmitJobsOptions): Promise<void> {
  const { model, app } = options;
  const client = new TuttiClient(nats.bulk, { app });
  const progress = new JobProgress(files.length, options.json === true ? "silent" : "shown");
  try {
    const spec = await askedSpec(new ModelRegistry(nats.store), model);
    if (spec === undefined) throw new CommandError(`no model "${model}" is loaded: \`tutti models\` lists what is`);
    const pending: Pending[] = [];
    await eachOf(files, SUBMITTING, async (file) => {
      const job = await progress.watch(file.path, () => submitFile(client, file, { spec, options, progress }));
      if (job === "failed") return;
      if (job === "there") return progress.found();
      progress.submitted();
      pending.push({ file, job });
    });
    if (options.detach !== true)
      await eachOf(pending, AWAITED, async ({ file, job }) => {
        const result = await progress.watch(file.path, () => job.result());
        if (result === "failed") return;
        const { outputs } = result;
        await writeResult(file.out, aboutResult(job.id, file, result), { outputs, format: formatOf(options) });
        progress.done();
      });
    report(progress, options);
  } finally {
    progress.end();
    client.close();
  }
}

/** @returns "there": its result is in the folder already */
async function submitFile(
  client: TuttiClient,
  file: JobFile,
  { spec, options, progress }: { readonly spec: ModelSpec; readonly options: SubmitJobsOptions; progress: JobProgress },
): Promise<Job | "there"> {
  const { model, outputs, deadline, app } = options;
  const id = jobIdOfFile(await readFile(file.path), { app, model, outputs });
  if (await hasResult(file.out, id, formatOf(options))) return "there";
  const input = await readInput(file.path, spec);
  if (input.kind === "frames")
    throw new CommandError("a sound whose frames need one another's results is no job: `tutti infer` asks for it");
  for (;;) {
    try {
      const known = client.jobs.job(model, id, { app });
      const result = await known.peek();
      if (result !== undefined && !(result instanceof TuttiError)) return known; // one that failed is tried again
      return await client.jobs.submit(model, input.inputs, {
        id,
        app,
        ...(deadline !== undefined && { deadline }),
        ...(outputs !== undefined && { outputs: outputs.split(",") }),
      });
    } catch (error) {
      // The same id again is the same job, so trying again is safe.
      if (!(error instanceof TuttiError) || !error.retryable) throw error;
      progress.waits(error.message);
      await new Promise((resolve) => setTimeout(resolve, error.retryAfterMs ?? RETRY_MS));
    }
  }
}

const aboutResult = (id: string, file: JobFile, result: InferResult) => ({
  id,
  file: file.path,
  model: result.model,
  ...(result.version !== undefined && { version: result.version }),
});

function report(progress: JobProgress, { json, detach, out }: SubmitJobsOptions): void {
  const { counts, failures } = progress;
  progress.end();
  if (json === true) process.stdout.write(`${JSON.stringify({ ...counts, failures })}\n`);
  else {
    for (const { path, code, text } of failures.slice(0, FAILURES_SHOWN))
      process.stderr.write(`tutti: ${path}: ${text} (${code})\n`);
    if (failures.length > FAILURES_SHOWN) process.stderr.write(`tutti: and ${failures.length - FAILURES_SHOWN} more\n`);
    const what =
      detach === true
        ? `${counts.submitted} jobs are in the queue; the same command without --detach writes their results`
        : `${counts.done} results written to ${out}`;
    process.stdout.write(`${what}${counts.found > 0 ? `, ${counts.found} were there` : ""}\n`);
    if (failures.length > 0 && detach !== true)
      process.stderr.write("tutti: `tutti jobs dead --requeue` puts those that were given up into the queue again\n");
  }
  if (failures.length > 0) process.exitCode = EXIT.failed;
}

function formatOf({ format }: SubmitJobsOptions): ResultFormat {
  const found = RESULT_FORMATS.find((one) => one === format);
  if (found === undefined) throw usageError(`--format ${format}: ${RESULT_FORMATS.join(" or ")}`);
  return found;
}

function checkDeadline(text: string): void {
  try {
    jobDeadline(text);
  } catch (error) {
    throw usageError(`--deadline ${text}: ${(error as Error).message}`);
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
