/** `tutti jobs` and `tutti jobs dead`: what the queue of background jobs has, and what was given up. */
import type { Bus } from "@tutti/ports/bus";
import type { Store } from "@tutti/ports/store";
import type { DeadJob, DeadUse, JobAdministration } from "@tutti/ports/jobs";
import {
  JOB_HEADER,
  type JobReceipt,
  StatsReported,
  TuttiError,
  jobSubject,
  jobCounts,
  subjectsOf,
} from "@tutti/protocol";
import { readFailure } from "@tutti/client";
import { ModelRegistry, absentModelError, askedSpec } from "@tutti/client/registries";
import { FrameReader } from "@tutti/wire";
import { withCluster } from "../cluster/connection.ts";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { CommandError, usageError } from "../failure.ts";
import { note, print } from "../print.ts";
import { waitOption } from "../seconds-option.ts";
import { type DeadRow, type JobReading, deadRow, jobRows, renderDead, renderJobs } from "./job-table.ts";

export interface JobsOptions extends ClusterOptions {
  /** Seconds. */
  readonly wait: string;
  readonly json?: boolean;
}

export interface DeadOptions extends ClusterOptions {
  readonly model?: string;
  readonly app?: string;
  /** Only those of the job of this id. */
  readonly id?: string;
  readonly requeue?: boolean;
  readonly remove?: boolean;
  readonly json?: boolean;
}

const NAME = "tutti-jobs";
const RECEIPT_MS = 10_000;

export async function jobs(options: JobsOptions): Promise<void> {
  const waitMs = waitOption(options.wait);
  await withCluster({ ...options, name: NAME }, async ({ control, jobs: queue }, { cluster }) => {
    const heard = heardRates(control, cluster);
    const [reading] = await Promise.all([read(queue), new Promise((resolve) => setTimeout(resolve, waitMs))]);
    heard.stop();
    const rows = jobRows({ ...reading, rates: heard.rates() });
    if (options.json === true) print(JSON.stringify({ models: rows, runners: heard.runners() }));
    else print(renderJobs(rows, heard.runners(), new Date()));
  });
}

export async function dead(options: DeadOptions): Promise<void> {
  const { model, app, id, requeue = false, remove = false } = options;
  if (requeue && remove) throw usageError("--requeue and --remove: a letter is either put back or removed");
  await withCluster({ ...options, name: NAME }, async ({ bulk, jobs: queue, store }) => {
    const kept: string[] = [];
    const rows = await orNoQueue(async () => {
      const found: DeadRow[] = [];
      const newest = requeue ? await newestLetters(queue) : new Map<string, number>();
      for await (const letter of queue.deadJobs()) {
        const row = deadRow(letter);
        if ([model ?? row.model, app ?? row.app, id ?? row.id].join() !== [row.model, row.app, row.id].join()) continue;
        const last = newest.get(keyOf(row)) ?? 0;
        if (requeue && row.seq > last) continue; // it came meanwhile
        if (requeue && row.seq < last) {
          await queue.removeDead(row.seq);
          continue;
        }
        if (requeue && (await requeueLetter(bulk, letter, row)).duplicate) {
          kept.push(row.id);
          continue;
        }
        if (requeue || remove) await queue.removeDead(letter.seq);
        found.push(row);
      }
      return found;
    });
    if (model !== undefined && rows.length + kept.length === 0) await noteAbsent(store, model);
    if (options.json === true) print(JSON.stringify({ dead: rows, requeued: requeue, removed: remove, kept }));
    else if (requeue) print(`${jobsAre(rows.length)} in the queue again${keptText(kept.length)}`);
    else if (remove) print(`${rows.length} ${rows.length === 1 ? "dead letter" : "dead letters"} removed`);
    else print(renderDead(rows));
  });
}

/** A model that was unloaded rightly has none; a mistyped name has none either, and is worth a word. */
async function noteAbsent(store: Store, model: string): Promise<void> {
  const registry = new ModelRegistry(store);
  if ((await askedSpec(registry, model)) !== undefined) return;
  note(`tutti: ${(await absentModelError(registry, model)).message}`);
}

/** A letter that was put there by hand may be of no job that is known. */
const keyOf = ({ app, model, id, seq }: DeadRow): string => (id === "" ? `${seq}` : `${app}.${model}.${id}`);

/** A job that failed several times has a letter of each; only the last one is put back. */
async function newestLetters(queue: JobAdministration): Promise<ReadonlyMap<string, number>> {
  const newest = new Map<string, number>();
  for await (const letter of queue.deadJobs()) newest.set(keyOf(deadRow(letter)), letter.seq);
  return newest;
}

const jobsAre = (count: number): string => `${count} ${count === 1 ? "job is" : "jobs are"}`;
const keptText = (count: number): string =>
  count === 0 ? "" : `; ${jobsAre(count)} perhaps there already: try again in ten minutes`;

/**
 * Submits the job as its publisher did, so that it is checked alike. Its deadline begins anew. The letter is removed
 * afterwards: a command that ends in between leaves a letter. That of a duplicate stays too, since the queue may mean
 * the job's earlier run.
 */
function requeueLetter(
  bus: Bus,
  { headers: all, payload, seq }: DeadJob,
  { model, app }: DeadRow,
): Promise<JobReceipt> {
  const own: ReadonlySet<string> = new Set([JOB_HEADER.deadCode, JOB_HEADER.deadReason, JOB_HEADER.deadTries]);
  // The server's own headers say where the letter came from.
  const headers = Object.fromEntries(
    Object.entries(all).filter(([name]) => !own.has(name) && !name.startsWith("Nats-")),
  );
  // A job runner answers below the application's own inbox only.
  const reply = `_INBOX.${app}.${crypto.randomUUID()}`;
  const { promise, resolve, reject } = Promise.withResolvers<JobReceipt>();
  const subscription = bus.subscribe(reply, (delivery) => {
    const failure = delivery.header("Status") === "503" ? noRunner() : readFailure(delivery, model);
    if (failure === undefined) resolve(JSON.parse(new TextDecoder().decode(delivery.payload)) as JobReceipt);
    else reject(failure);
  });
  const timer = setTimeout(() => reject(noRunner()), RECEIPT_MS);
  if (!bus.publish(jobSubject(model, app), payload, { reply, headers })) reject(noRunner());
  return promise
    .catch((error: unknown) => {
      if (!(error instanceof TuttiError)) throw error;
      throw new CommandError(`dead letter ${seq} is not in the queue again: ${error.message}`, undefined, error);
    })
    .finally(() => {
      clearTimeout(timer);
      subscription.stop();
    });
}

const noRunner = (): TuttiError => new TuttiError("TUTTI_UNAVAILABLE", "no job runner answers: `tutti run jobs`");

function read(queue: JobAdministration): Promise<Omit<JobReading, "rates">> {
  return orNoQueue(async () => ({ backlogs: await queue.backlogs(), dead: countsOf(await queue.dead()) }));
}

const countsOf = ({ letters }: DeadUse): ReadonlyMap<string, number> =>
  new Map([...letters].map(([model, byCode]) => [model, [...byCode.values()].reduce((sum, count) => sum + count, 0)]));

async function orNoQueue<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!(cause instanceof Error) || !/stream not found/i.test(cause.message)) throw cause;
    throw new CommandError(
      "this cluster has no queue of jobs: a node makes it, within a second of its start",
      undefined,
      cause,
    );
  }
}

/** The rates that job runners report, once a second each. */
function heardRates(bus: Bus, cluster: string) {
  const reports = new Map<number, Readonly<Record<string, number>>>();
  const reader = new FrameReader().on(StatsReported, (stats) => {
    if (StatsReported.accepts(stats) && stats.role === "jobs") reports.set(stats.key, stats.figures);
  });
  const listening = bus.subscribe(subjectsOf(cluster).stats("jobs"), ({ payload }) => void reader.read(payload));
  return {
    runners: () => reports.size,
    rates: () => {
      const all = [...reports.values()].map((figures) => ({ role: "jobs" as const, figures }));
      return new Map([...jobCounts(all)].map(([model, { rate }]) => [model, rate]));
    },
    stop: () => listening.stop(),
  };
}
