/** Metrics of models: requests and batches since the start, and what waits now. */
import type { Role } from "@tutti/protocol";
import type { ModelTotals } from "./cluster-figures.ts";
import type { ClusterView, Declaration, Row } from "./declaration.ts";

export const modelMetrics = (view: ClusterView): Declaration[] => [...modelCounters(view), ...modelGauges(view)];

function modelCounters(view: ClusterView): Declaration[] {
  const ofTotals = (read: (totals: Readonly<ModelTotals>) => number) =>
    function* (): Generator<Row> {
      for (const { spec } of view.models()) {
        const totals = view.totalsOf(spec.name);
        if (totals !== undefined) yield [{ model: spec.name }, read(totals)];
      }
    };
  const counter = (name: string, help: string, read: (totals: Readonly<ModelTotals>) => number): Declaration => ({
    type: "counter",
    name,
    help,
    labels: ["model"],
    rows: ofTotals(read),
  });
  return [
    counter("tutti_requests_total", "Requests that came in, of all publishers", ({ offered }) => offered),
    counter("tutti_good_total", "Requests answered in time", ({ ok, late }) => ok - late),
    counter("tutti_late_total", "Requests answered after their deadline", ({ late }) => late),
    {
      type: "counter",
      name: "tutti_refused_total",
      help: "Requests refused, by cause: the code of the error",
      labels: ["model", "cause"],
      *rows() {
        for (const { spec } of view.models())
          for (const [cause, count] of view.totalsOf(spec.name)?.refused ?? [])
            yield [{ model: spec.name, cause }, count];
      },
    },
    counter(
      "tutti_answer_seconds_total",
      "Time from arrival to answer, of all that were answered",
      ({ latencyUs }) => latencyUs / 1e6,
    ),
    counter(
      "tutti_batches_total",
      "Batches that batchers sent to run, without those of warm-up requests alone",
      ({ batches }) => batches,
    ),
    counter("tutti_batched_requests_total", "Requests in these batches", ({ items }) => items),
    counter(
      "tutti_late_starts_total",
      "Batches that could start only after more than was set aside for it",
      ({ lateStarts }) => lateStarts,
    ),
    counter(
      "tutti_started_batches_total",
      "Batches of which it is known when they could start",
      ({ finished }) => finished,
    ),
    counter(
      "tutti_start_delay_seconds_total",
      "From their grants until they could start, inputs pulled",
      ({ startDelayUs }) => startDelayUs / 1e6,
    ),
  ];
}

function modelGauges(view: ClusterView): Declaration[] {
  return [
    {
      type: "gauge",
      name: "tutti_answer_p99_seconds",
      help: "99th percentile of the time from arrival to answer, of the last seconds, at the ingress where it is worst",
      labels: ["model"],
      rows: () => ofThreads(view, "ingress", "p99Us", (a, b) => Math.max(a, b), 1e-6),
    },
    {
      type: "gauge",
      name: "tutti_queue_length",
      help: "Requests that wait in a batcher's queue",
      labels: ["model"],
      rows: () => ofThreads(view, "batcher", "queued", (a, b) => a + b),
    },
    {
      type: "gauge",
      name: "tutti_dispatched_batches",
      help: "Batches that were sent to run and are not reported done",
      labels: ["model"],
      rows: () => ofThreads(view, "batcher", "inFlight", (a, b) => a + b),
    },
    {
      type: "gauge",
      name: "tutti_model_stalled",
      help: "1 if the model answered none of its requests though accelerators serve, and was started anew in the last 15 s",
      labels: ["model"],
      rows: () => ofThreads(view, "batcher", "stalled", (a, b) => Math.max(a, b)),
    },
  ];
}

/** Combines a figure of a model's threads over them and the actors that report it. */
export function ofThreads(
  view: ClusterView,
  role: Role,
  figure: string,
  join: (a: number, b: number) => number,
  scale = 1,
  rows: "perThread" | "perJobThread" = "perThread",
): Row[] {
  const known = new Map<string, number>(view.models().map(({ spec }) => [spec.name, 0]));
  for (const stats of view.living()) {
    if (stats.role !== role) continue;
    for (const { name, figures } of stats[rows] ?? []) {
      const model = name.split("@", 1)[0]!;
      const before = known.get(model);
      if (before !== undefined) known.set(model, join(before, (figures[figure] ?? 0) * scale));
    }
  }
  return [...known].map(([model, value]) => [{ model }, value]);
}
