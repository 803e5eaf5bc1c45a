/** Figures of background jobs in the reports of job runners, by model. */
import type { StatsReported } from "./stats-message.ts";

/** `rate:<model>`, `queued:<model>`, `dead:<model>:<code>`. */
type JobFigure = "rate" | "queued" | "dead";
export const jobFigure = (kind: JobFigure, model: string, code?: string): string =>
  code === undefined ? `${kind}:${model}` : `${kind}:${model}:${code}`;
/** Undefined for a figure that is no model's. */
function readJobFigure(
  name: string,
): { readonly kind: JobFigure; readonly model: string; readonly code: string } | undefined {
  const [kind, model, code = ""] = name.split(":");
  if ((kind !== "rate" && kind !== "queued" && kind !== "dead") || model === undefined) return undefined;
  return { kind, model, code };
}

/** One model's jobs, of all runners together. */
export interface JobCounts {
  /** Jobs done a second, lately. */
  rate: number;
  /** Jobs in the durable queue, those in flight included. */
  queued: number;
  /** Dead letters by the code of their last failure. */
  readonly dead: Map<string, number>;
}

/** Each runner reports its own rate, and backlogs and letters of the whole queue, as it saw them last. */
export function jobCounts(reports: Iterable<Pick<StatsReported, "role" | "figures">>): Map<string, JobCounts> {
  const models = new Map<string, JobCounts>();
  for (const { role, figures } of reports) {
    if (role !== "jobs") continue;
    for (const [name, value] of Object.entries(figures)) {
      const figure = readJobFigure(name);
      if (figure === undefined) continue;
      const { kind, model, code } = figure;
      let counts = models.get(model);
      if (counts === undefined) models.set(model, (counts = { rate: 0, queued: 0, dead: new Map() }));
      if (kind === "rate") counts.rate += value;
      else if (kind === "queued") counts.queued = Math.max(counts.queued, value);
      else counts.dead.set(`TUTTI_${code}`, Math.max(counts.dead.get(`TUTTI_${code}`) ?? 0, value));
    }
  }
  return models;
}

/** A slower rate is that of a queue which has just come to a stop. */
const STANDING = 0.005;

/** Seconds until the queue is empty at this rate; null: nothing moves. */
export const jobsEndInS = (queued: number, rate: number): number | null =>
  queued === 0 ? 0 : rate < STANDING ? null : Math.ceil(queued / rate);
