/** `tutti jobs` and `tutti jobs dead`: what the queue of background jobs has, and what was given up. */
import type { Bus } from "@tutti/ports/bus";
import type { DeadJob, JobAdministration } from "@tutti/ports/jobs";
import { HEADER, JOB_HEADER, StatsReported, isJobId, jobSubject, resultSubject, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import { withCluster } from "../cluster/connection.ts";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { CommandError, usageError } from "../failure.ts";
import { type DeadRow, type JobReading, deadRow, jobRows, renderDead, renderJobs } from "./job-table.ts";

export interface JobsOptions extends ClusterOptions {
  /** Seconds. */
  readonly wait: string;
  readonly json?: boolean;
}

export interface DeadOptions extends ClusterOptions {
  readonly model?: string;
  readonly requeue?: boolean;
  readonly json?: boolean;
}

const NAME = "tutti-jobs";
const RATE = "rate:";

export async function jobs(options: JobsOptions): Promise<void> {
  const waitMs = Number(options.wait) * 1_000;
  if (!(waitMs > 0)) throw usageError(`--wait ${options.wait}: a number of seconds`);
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
  await withCluster({ ...options, name: NAME }, async ({ jobs: queue }) => {
    const rows = await orNoQueue(async () => {
      const found: DeadRow[] = [];
      for await (const letter of queue.deadJobs()) {
        const row = deadRow(letter);
        if (options.model !== undefined && row.model !== options.model) continue;
        if (options.requeue === true) await requeue(queue, letter, row);
        found.push(row);
      }
      return found;
    });
    if (options.json === true) print(JSON.stringify({ dead: rows, requeued: options.requeue === true }));
    else if (options.requeue !== true) print(renderDead(rows));
    else print(`${rows.length} ${rows.length === 1 ? "job is" : "jobs are"} in the queue again`);
  });
}

/**
 * The job is queued again before its letter is removed: a command that ends in between leaves a letter, and requeues
 * the job under the same message's id. Its deadline begins anew.
 */
async function requeue(queue: JobAdministration, letter: DeadJob, { model, app, id, seq }: DeadRow): Promise<void> {
  if (isJobId(id)) await queue.forgetResult(resultSubject(app, model, id));
  const own: ReadonlySet<string> = new Set([JOB_HEADER.deadCode, JOB_HEADER.deadReason, JOB_HEADER.deadTries]);
  // The server's own headers say where the letter came from.
  const kept = Object.entries(letter.headers).filter(([name]) => !own.has(name) && !name.startsWith("Nats-"));
  const headers = { ...Object.fromEntries(kept), [HEADER.messageId]: `requeued-${seq}` };
  await queue.submit(jobSubject(model, app), { headers, payload: letter.payload });
  await queue.removeDead(seq);
}

function read(queue: JobAdministration): Promise<Omit<JobReading, "rates">> {
  return orNoQueue(async () => ({ backlogs: await queue.backlogs(), dead: await queue.dead() }));
}

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
      const rates = new Map<string, number>();
      for (const figures of reports.values())
        for (const [name, value] of Object.entries(figures)) {
          if (!name.startsWith(RATE)) continue;
          const model = name.slice(RATE.length);
          rates.set(model, (rates.get(model) ?? 0) + value);
        }
      return rates;
    },
    stop: () => listening.stop(),
  };
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
