/** Metrics of models' jobs, which no metric of requests counts (docs/algorithms.md, A13). */
import { type JobCounts, jobCounts } from "@tutti/protocol";
import type { ModelTotals } from "./cluster-figures.ts";
import type { ClusterView, Declaration, Row } from "./declaration.ts";
import { OTHER } from "./label-budget.ts";
import { ofThreads } from "./model-metrics.ts";

export function jobMetrics(view: ClusterView): Declaration[] {
  const counter = (name: string, help: string, read: (totals: Readonly<ModelTotals>) => number): Declaration => ({
    ...{ type: "counter", name, help, labels: ["model"] },
    *rows() {
      for (const { spec } of view.models()) {
        const totals = view.jobsOf(spec.name);
        if (totals !== undefined) yield [{ model: spec.name }, read(totals)];
      }
    },
  });
  return [
    counter("tutti_jobs_total", "Jobs that came in; one that is sent again counts again", ({ offered }) => offered),
    counter("tutti_jobs_answered_total", "Jobs that were answered", ({ ok }) => ok),
    {
      type: "counter",
      name: "tutti_jobs_refused_total",
      help: "Jobs refused, by cause: the code of the error",
      labels: ["model", "cause"],
      *rows() {
        for (const { spec } of view.models())
          for (const [cause, count] of view.jobsOf(spec.name)?.refused ?? [])
            yield [{ model: spec.name, cause }, count];
      },
    },
    counter(
      "tutti_job_answer_seconds_total",
      "Time from arrival to answer, of all jobs that were answered",
      ({ latencyUs }) => latencyUs / 1e6,
    ),
    counter("tutti_job_batches_total", "Batches of jobs that batchers sent to run", ({ batches }) => batches),
    counter("tutti_batched_jobs_total", "Jobs in these batches", ({ items }) => items),
    {
      type: "gauge",
      name: "tutti_job_queue_length",
      help: "Jobs that wait in a batcher's queue",
      labels: ["model"],
      rows: () => ofThreads(view, "batcher", "queued", (a, b) => a + b, 1, "perJobThread"),
    },
    {
      type: "gauge",
      name: "tutti_job_backlog",
      help: "Jobs in the durable queue, those in flight included",
      labels: ["model"],
      rows: () => queueRows(view, ({ queued }) => queued),
    },
    {
      type: "gauge",
      name: "tutti_job_rate",
      help: "Jobs done a second, the mean of the last seconds",
      labels: ["model"],
      rows: () => queueRows(view, ({ rate }) => rate),
    },
    {
      type: "gauge",
      name: "tutti_dead_jobs",
      help: "Dead letters: jobs that were given up and are kept, by the code of their last failure",
      labels: ["model", "cause"],
      rows: () => deadRows(view),
    },
  ];
}

/** The models' names, and one for all that are not loaded: anybody may name a model in a job. */
function labels(view: ClusterView): (model: string) => string {
  const known = new Set(view.models().map(({ spec }) => spec.name));
  return (model) => (known.has(model) ? model : OTHER);
}

function queueRows(view: ClusterView, read: (counts: JobCounts) => number): Row[] {
  const labelOf = labels(view);
  const sums = new Map<string, number>();
  for (const [model, counts] of jobCounts(view.living())) {
    const label = labelOf(model);
    sums.set(label, (sums.get(label) ?? 0) + read(counts));
  }
  return [...sums].map(([model, sum]) => [{ model }, sum]);
}

function deadRows(view: ClusterView): Row[] {
  const labelOf = labels(view);
  const rows = new Map<string, Row>();
  for (const [name, { dead }] of jobCounts(view.living()))
    for (const [cause, count] of dead) {
      const model = labelOf(name);
      rows.set(`${model} ${cause}`, [{ model, cause }, count + (rows.get(`${model} ${cause}`)?.[1] ?? 0)]);
    }
  return [...rows.values()];
}
