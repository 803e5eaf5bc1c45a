/** Metrics of models' jobs, which no metric of requests counts (docs/algorithms.md, A13). */
import type { ModelTotals } from "./cluster-figures.ts";
import type { ClusterView, Declaration } from "./declaration.ts";
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
  ];
}
