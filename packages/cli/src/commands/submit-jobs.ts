import { EXIT, makeNamedFolder, note, print, usageError } from "@tutti/admin";
import type { NatsConnection } from "@tutti/bus-nats";
import { type ClusterOptions, busInNameOf, withCluster } from "@tutti/admin/cluster";
import { TuttiClient } from "@tutti/client";
import { ModelRegistry, absentModelError, askedSpec } from "@tutti/client/registries";
import { NAME_RULE, isModelName, isName, jobDeadline } from "@tutti/protocol";
import { type JobFile, RESULT_FORMATS, type ResultFormat, jobFiles } from "../present/job-files.ts";
import { JobProgress } from "../present/job-progress.ts";
import { JobSubmission } from "../present/job-submission.ts";

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

const FAILURES_SHOWN = 10;

/** `tutti jobs submit`: the files become jobs, and their results are written as they come. */
export async function submitJobs(path: string, options: SubmitJobsOptions): Promise<void> {
  const { model, app, deadline } = options;
  if (!isModelName(model)) throw usageError(`--model ${model}: ${NAME_RULE}`);
  if (!isName(app)) throw usageError(`--app ${app}: ${NAME_RULE}`);
  if (deadline !== undefined) checkDeadline(deadline);
  formatOf(options);
  const files = await jobFiles(path, options.out);
  if (options.detach !== true) makeNamedFolder("--out", options.out, 0o777);
  // With the operator's credentials: an application's may not list models.
  const named = { name: "tutti-jobs", isForApps: true };
  await withCluster({ ...options, ...named }, (nats) => submitAll(files, nats, options));
}

async function submitAll(files: readonly JobFile[], nats: NatsConnection, options: SubmitJobsOptions): Promise<void> {
  const { model, app, outputs, deadline } = options;
  const client = new TuttiClient(busInNameOf(app, nats.bulk), { app });
  const progress = new JobProgress(files.length, options.json === true ? "reasons" : "shown");
  try {
    const registry = new ModelRegistry(nats.store);
    const spec = await askedSpec(registry, model);
    if (spec === undefined) throw await absentModelError(registry, model);
    const form = { app, format: formatOf(options), isDetached: options.detach === true, outputs, deadline };
    await new JobSubmission(client.jobs, spec, form, progress).run(files);
    report(progress, options);
  } finally {
    progress.end();
    client.close();
  }
}

function report(progress: JobProgress, { json, detach, out }: SubmitJobsOptions): void {
  const { counts, failures } = progress;
  progress.end();
  if (json === true) print(JSON.stringify({ ...counts, failures }));
  else {
    for (const { path, code, text } of failures.slice(0, FAILURES_SHOWN)) note(`tutti: ${path}: ${text} (${code})`);
    if (failures.length > FAILURES_SHOWN) note(`tutti: and ${failures.length - FAILURES_SHOWN} more`);
    const what =
      detach === true
        ? `${counts.submitted} jobs are in the queue; the same command without --detach writes their results`
        : `${counts.done} results written to ${out}`;
    print(`${what}${counts.found > 0 ? `, ${counts.found} were there` : ""}`);
    if (failures.length > 0 && detach !== true)
      note("tutti: `tutti jobs dead --requeue` puts those that were given up into the queue again");
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
