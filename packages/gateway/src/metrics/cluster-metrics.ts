/**
 * What the cluster's actors report, as Prometheus reads it: ours in seconds, and under the names that Triton's
 * dashboards know. Made when it is asked for.
 */
import type { CatalogModel } from "@tutti/actors";
import {
  type Heartbeat,
  ROLES,
  type Role,
  type Route,
  type ScalingAdvised,
  type StatsReported,
  publicNameOf,
} from "@tutti/protocol";
import type { GpuId } from "@tutti/units";
import { Counter, Gauge, type Registry } from "prom-client";
import type { OwnTotals } from "../oip/model-statistics.ts";
import type { GpuTotals, ModelTotals } from "./cluster-figures.ts";
import { partMetrics } from "./part-metrics.ts";
import type { PartReport, PartTotals } from "./part-totals.ts";
import { rolloutMetrics } from "./rollout-metrics.ts";

/** What there is to tell now. */
export interface ClusterView {
  readonly models: () => readonly CatalogModel[];
  readonly totalsOf: (model: string) => Readonly<ModelTotals> | undefined;
  readonly ownOf: (model: string) => OwnTotals | undefined;
  readonly gpus: () => ReadonlyMap<GpuId, Readonly<GpuTotals>>;
  readonly living: () => Iterable<StatsReported>;
  readonly peersOf: (role: Role) => Iterable<Heartbeat>;
  readonly takeovers: () => ReadonlyMap<string, number>;
  /** Undefined where no planner has said anything for some time. */
  readonly advised: () => ScalingAdvised | undefined;
  readonly routes: () => readonly Route[];
  readonly parts: (kind: PartReport["kind"]) => readonly Readonly<PartTotals>[];
}

type Labels = Readonly<Record<string, string>>;
export type Row = readonly [Labels, number];
export interface Declaration {
  readonly type: "counter" | "gauge";
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly rows: () => Iterable<Row>;
}

/** @param registry - gets all of them */
export function clusterMetrics(registry: Registry, view: ClusterView): void {
  for (const declaration of [
    ...modelMetrics(view),
    ...modelGauges(view),
    ...tritonMetrics(view),
    ...acceleratorMetrics(view),
    ...actorMetrics(view),
    ...planMetrics(view),
    ...rolloutMetrics(view),
    ...partMetrics(view),
  ])
    register(registry, declaration);
}

/** Totals are kept elsewhere, so each is set anew whenever it is read. */
function register(registry: Registry, { type, name, help, labels, rows }: Declaration): void {
  const common = { name, help, labelNames: [...labels], registers: [registry] };
  if (type === "counter")
    new Counter({
      ...common,
      collect() {
        this.reset();
        for (const [own, value] of rows()) this.inc(own, value);
      },
    });
  else
    new Gauge({
      ...common,
      collect() {
        this.reset();
        // Without labels a reset leaves a zero behind, which would be told where nothing is known.
        if (labels.length === 0) this.remove();
        for (const [own, value] of rows()) this.set(own, value);
      },
    });
}

function modelMetrics(view: ClusterView): Declaration[] {
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
    counter("tutti_batches_total", "Batches that batchers sent to run", ({ batches }) => batches),
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

/** A figure of a model's threads, put together over them and the actors that report it. */
function ofThreads(
  view: ClusterView,
  role: Role,
  figure: string,
  join: (a: number, b: number) => number,
  scale = 1,
): Row[] {
  const known = new Map<string, number>(view.models().map(({ spec }) => [spec.name, 0]));
  for (const stats of view.living()) {
    if (stats.role !== role) continue;
    for (const { name, figures } of stats.perThread ?? []) {
      const model = name.split("@", 1)[0]!;
      const before = known.get(model);
      if (before !== undefined) known.set(model, join(before, (figures[figure] ?? 0) * scale));
    }
  }
  return [...known].map(([model, value]) => [{ model }, value]);
}

type TritonCounter = (
  name: string,
  help: string,
  read: (totals: Readonly<ModelTotals> | undefined, own: OwnTotals | undefined) => number,
) => Declaration;

/** By request, as Triton counts: each of a batch's spends the whole of the batch's time. */
const computeMetrics = (counter: TritonCounter): Declaration[] => [
  counter(
    "nv_inference_compute_input_duration_us",
    "Time that requests spent while their batch's inputs were pulled, in microseconds",
    (totals) => totals?.computePullUs ?? 0,
  ),
  counter(
    "nv_inference_compute_infer_duration_us",
    "Time that requests spent while their batch ran, in microseconds",
    (totals) => totals?.computeRunUs ?? 0,
  ),
  counter(
    "nv_inference_compute_output_duration_us",
    "Time that requests spent while their batch's outputs were pushed, in microseconds",
    (totals) => totals?.computePushUs ?? 0,
  ),
];

/**
 * https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html: those that our
 * actors can tell.
 */
function tritonMetrics(view: ClusterView): Declaration[] {
  const counter: TritonCounter = (name, help, read) => ({
    type: "counter",
    name,
    help,
    labels: ["model", "version"],
    *rows() {
      for (const { spec } of view.models())
        yield [
          { model: publicNameOf(spec.name), version: spec.version },
          read(view.totalsOf(spec.name), view.ownOf(spec.name)),
        ];
    },
  });
  return [
    counter("nv_inference_request_success", "Successful requests", (totals) => totals?.ok ?? 0),
    counter("nv_inference_count", "Requests that ran", (totals) => totals?.items ?? 0),
    counter("nv_inference_exec_count", "Batches that ran", (totals) => totals?.batches ?? 0),
    counter(
      "nv_inference_request_duration_us",
      "Time of successful requests, in microseconds",
      (totals) => totals?.latencyUs ?? 0,
    ),
    counter(
      "nv_inference_queue_duration_us",
      "Time from arrival to the start of the run, in microseconds, of requests through this gateway",
      (_, own) => own?.queueUs ?? 0,
    ),
    ...computeMetrics(counter),
    {
      type: "counter",
      name: "nv_inference_request_failure",
      help: "Failed requests; OTHER: refused by the scheduler or invalid, CANCELED: taken back",
      labels: ["model", "version", "reason"],
      *rows() {
        for (const { spec } of view.models()) {
          let [cancelled, other] = [0, 0];
          for (const [cause, count] of view.totalsOf(spec.name)?.refused ?? [])
            if (cause === "TUTTI_CANCELLED") cancelled += count;
            else other += count;
          const labels = { model: publicNameOf(spec.name), version: spec.version };
          yield [{ ...labels, reason: "CANCELED" }, cancelled];
          yield [{ ...labels, reason: "OTHER" }, other];
        }
      },
    },
    {
      type: "gauge",
      name: "nv_inference_pending_request_count",
      help: "Requests that wait to be run",
      labels: ["model", "version"],
      *rows() {
        const versions = new Map(view.models().map(({ spec }) => [spec.name, spec.version]));
        for (const [{ model = "" }, count] of ofThreads(view, "batcher", "queued", (a, b) => a + b))
          yield [{ model: publicNameOf(model), version: versions.get(model) ?? "" }, count];
      },
    },
  ];
}

function acceleratorMetrics(view: ClusterView): Declaration[] {
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

/** Sub-clusters that are told apart; their names come from the actors. */
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

function actorMetrics(view: ClusterView): Declaration[] {
  const worst = (name: string, help: string, figure: string): Declaration => ({
    type: "gauge",
    name,
    help,
    labels: ["role"],
    rows() {
      const byRole = new Map<string, number>();
      for (const { role, figures } of view.living()) {
        const value = figures[figure];
        if (value !== undefined) byRole.set(role, Math.max(byRole.get(role) ?? 0, Math.abs(value) / 1e6));
      }
      return [...byRole].map(([role, value]) => [{ role }, value]);
    },
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
    worst(
      "tutti_event_loop_lag_seconds",
      "99th percentile of how late the event loop was, at the actor where it is worst",
      "lagP99Us",
    ),
    worst(
      "tutti_clock_error_seconds",
      "How far a process' clock is from its host's, at the actor where it is worst",
      "clockErrorUs",
    ),
  ];
}

const STATES = ["loading", "profiling", "ready", "refused", "failed", "quarantined"] as const;

function planMetrics(view: ClusterView): Declaration[] {
  const advice = (name: string, help: string, read: (advised: ScalingAdvised) => number): Declaration => ({
    type: "gauge",
    name,
    help,
    labels: [],
    rows() {
      const advised = view.advised();
      return advised === undefined ? [] : [[{}, read(advised)]];
    },
  });
  return [
    {
      type: "gauge",
      name: "tutti_models",
      help: "Models by state",
      labels: ["state"],
      rows() {
        const states = view.models().map(({ status }) => status?.state ?? "loading");
        return STATES.map((state) => [{ state }, states.filter((one) => one === state).length]);
      },
    },
    advice(
      "tutti_advice_accelerators",
      "How many accelerators there ought to be, by the planner's last advice",
      ({ gpus, advice: more }) => Math.max(1, gpus + more),
    ),
    advice(
      "tutti_advice_bad_ratio",
      "Share of requests that were not answered in time, in the planner's last window",
      ({ badRate }) => badRate,
    ),
    advice(
      "tutti_advice_idle_ratio",
      "Share of time that accelerators were idle, in the planner's last window",
      ({ idleShare }) => idleShare,
    ),
  ];
}
