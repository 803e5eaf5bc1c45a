/** Metrics of accelerators, of actors and of the process that each of them is. */
import { ROLES } from "@tutti/protocol";
import type { GpuTotals } from "./cluster-figures.ts";
import type { ClusterView, Declaration, Row } from "./declaration.ts";

export function acceleratorMetrics(view: ClusterView): Declaration[] {
  const counter = (name: string, help: string, read: (totals: Readonly<GpuTotals>) => number): Declaration => ({
    type: "counter",
    name,
    help,
    labels: ["gpu"],
    *rows() {
      for (const [gpu, totals] of view.gpus()) yield [{ gpu: String(gpu) }, read(totals)];
    },
  });
  return [
    counter(
      "tutti_accelerator_busy_seconds_total",
      "Time that runs took: its rate is the share of time that it is busy",
      ({ busyUs }) => busyUs / 1e6,
    ),
    counter(
      "tutti_accelerator_job_seconds_total",
      "The part of it that was for jobs, and is idle time to requests",
      ({ jobsUs }) => jobsUs / 1e6,
    ),
    counter("tutti_accelerator_batches_total", "Batches that ran", ({ batches }) => batches),
    counter("tutti_accelerator_requests_total", "Requests in these batches", ({ items }) => items),
    counter(
      "tutti_accelerator_refused_batches_total",
      "Batches that its executor did not take",
      ({ refused }) => refused,
    ),
    {
      type: "gauge",
      name: "tutti_accelerators",
      help: "Accelerators by whether they serve",
      labels: ["state"],
      rows() {
        const gpus = [...view.peersOf("executor")].flatMap(({ gpus: own = [] }) => own);
        const serving = gpus.filter(({ serving: serves }) => serves).length;
        return [
          [{ state: "serving" }, serving],
          [{ state: "halted" }, gpus.length - serving],
        ];
      },
    },
  ];
}

/** Sub-clusters with series of their own; their names come from the actors. */
const SUB_CLUSTERS_SHOWN = 64;

function leaders(view: ClusterView): Map<string, number[]> {
  const epochs = new Map<string, number[]>();
  for (const { subCluster = "main", epoch = 0 } of view.peersOf("ranker")) {
    const known = epochs.get(subCluster);
    if (known !== undefined) known.push(epoch);
    else if (epochs.size < SUB_CLUSTERS_SHOWN) epochs.set(subCluster, [epoch]);
  }
  return epochs;
}

/** Figures of the turns by percentile; 100: the longest. promtool keeps the label `quantile` for summaries. */
const TURN_PERCENTILES = {
  "50": "minuteTurnP50Us",
  "99": "minuteTurnP99Us",
  "99.9": "minuteTurnP999Us",
  "100": "minuteTurnMaxUs",
};

const turnMetric = (view: ClusterView): Declaration => ({
  type: "gauge",
  name: "tutti_event_loop_turn_seconds",
  help: "Turns of the event loop in the last minute, at the actor where it is worst: what comes meanwhile waits",
  labels: ["role", "percentile"],
  rows: () =>
    Object.entries(TURN_PERCENTILES).flatMap(([percentile, figure]) =>
      [...worstOf(view, figure)].map(([role, value]): Row => [{ role, percentile }, value]),
    ),
});

/** The largest value of a figure, by role. */
function worstOf(view: ClusterView, figure: string, unit = 1e-6): Map<string, number> {
  const byRole = new Map<string, number>();
  for (const { role, figures } of view.living()) {
    const value = figures[figure];
    if (value !== undefined) byRole.set(role, Math.max(byRole.get(role) ?? 0, Math.abs(value) * unit));
  }
  return byRole;
}

export function actorMetrics(view: ClusterView): Declaration[] {
  const worst = (name: string, help: string, figure: string, unit = 1e-6): Declaration => ({
    ...{ type: "gauge", name, help, labels: ["role"] },
    rows: () => [...worstOf(view, figure, unit)].map(([role, value]) => [{ role }, value]),
  });
  const ofRankers = (read: (epochs: readonly number[]) => number) => (): Row[] =>
    [...leaders(view)].map(([sub_cluster, epochs]) => [{ sub_cluster }, read(epochs)]);
  return [
    {
      type: "gauge",
      name: "tutti_actors",
      help: "Actors that are heard, by role",
      labels: ["role"],
      rows: () => ROLES.map((role) => [{ role }, [...view.peersOf(role)].length]),
    },
    {
      type: "gauge",
      name: "tutti_ranker_epoch",
      help: "Epoch of the leading ranker; 0: none leads",
      labels: ["sub_cluster"],
      rows: ofRankers((epochs) => Math.max(0, ...epochs)),
    },
    {
      type: "gauge",
      name: "tutti_ranker_spares",
      help: "Rankers that do not lead, and could",
      labels: ["sub_cluster"],
      rows: ofRankers((epochs) => epochs.filter((epoch) => epoch === 0).length),
    },
    {
      type: "counter",
      name: "tutti_takeovers_total",
      help: "Times that another ranker began to lead, as this gateway saw it",
      labels: ["sub_cluster"],
      rows: () => [...view.takeovers()].map(([sub_cluster, count]) => [{ sub_cluster }, count]),
    },
    worst(
      "tutti_timer_lateness_seconds",
      "How late precise timers fire (a high percentile), at the actor where it is worst",
      "guardUs",
    ),
    turnMetric(view),
    worst(
      "tutti_event_loop_gc_ratio",
      "Share of these turns that was garbage collection, at the actor where it is worst",
      "minuteGcShare",
      1,
    ),
    worst(
      "tutti_event_loop_lag_seconds",
      'Former name of tutti_event_loop_turn_seconds{percentile="99"}, which goes with the next release',
      "minuteTurnP99Us",
    ),
    worst(
      "tutti_clock_error_seconds",
      "How far a process' clock is from its host's, at the actor where it is worst",
      "clockErrorUs",
    ),
  ];
}
