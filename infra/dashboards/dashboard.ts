/**
 * The overview dashboard for on-call engineers: whether the cluster is well, which model isn't, and what would help.
 */
import { quantile, rate, share, sumBy } from "./metric-query.ts";

interface Target {
  readonly expr: string;
  readonly legend: string;
}
interface PanelText {
  readonly title: string;
  readonly description: string;
  readonly unit: string;
  readonly targets: readonly Target[];
  readonly kind?: "timeseries" | "stat";
  /** Width in columns, of Grafana's 24. */
  readonly width?: number;
}

const MODEL = '{model=~"$model"}';
const offered = rate(`tutti_requests_total${MODEL}`);
const good = rate(`tutti_good_total${MODEL}`);

const JOB_TIME = rate("tutti_accelerator_job_seconds_total");
const REQUEST_TIME = `${rate("tutti_accelerator_busy_seconds_total")} - ${JOB_TIME}`;

const STATS: readonly PanelText[] = [
  {
    title: "In time",
    description: "Of what came in, how much was answered within its deadline.",
    unit: "percentunit",
    kind: "stat",
    targets: [{ expr: share(`sum(${good})`, `sum(${offered})`), legend: "in time" }],
  },
  {
    title: "Requests",
    description: "Of all publishers, over NATS, HTTP and gRPC.",
    unit: "reqps",
    kind: "stat",
    targets: [{ expr: `sum(${offered})`, legend: "requests" }],
  },
  {
    title: "Accelerators",
    description: "Those that serve, and how many there ought to be by the planner's advice.",
    unit: "none",
    kind: "stat",
    targets: [
      { expr: 'tutti_accelerators{state="serving"}', legend: "serving" },
      { expr: "tutti_advice_accelerators", legend: "advised" },
    ],
  },
  {
    title: "Leader's epoch",
    description: "0: nobody leads, and nothing new is started.",
    unit: "none",
    kind: "stat",
    targets: [{ expr: "max by (sub_cluster) (tutti_ranker_epoch)", legend: "{{sub_cluster}}" }],
  },
];

const PANELS: readonly PanelText[] = [
  {
    title: "In time, by model",
    description: "Below its objective for long: see what it is refused for, and how full the accelerators are.",
    unit: "percentunit",
    targets: [{ expr: share(sumBy("model", good), sumBy("model", offered)), legend: "{{model}}" }],
  },
  {
    title: "Refused, by cause",
    description: "OVERLOADED: more comes than can be served. DEADLINE_INFEASIBLE: an SLO that no load could meet.",
    unit: "reqps",
    targets: [{ expr: sumBy("model, cause", rate(`tutti_refused_total${MODEL}`)), legend: "{{model}} {{cause}}" }],
  },
  {
    title: "From arrival to answer",
    description: "99th percentile at the worst ingress, and the mean.",
    unit: "s",
    targets: [
      { expr: `tutti_answer_p99_seconds${MODEL}`, legend: "{{model}} p99" },
      {
        expr: share(
          sumBy("model", rate(`tutti_answer_seconds_total${MODEL}`)),
          sumBy("model", `${good} + ${rate(`tutti_late_total${MODEL}`)}`),
        ),
        legend: "{{model}} mean",
      },
    ],
  },
  {
    title: "Queue",
    description: "Requests that wait for a batch. Deferral keeps some on purpose.",
    unit: "none",
    targets: [{ expr: `tutti_queue_length${MODEL}`, legend: "{{model}}" }],
  },
  {
    title: "Batch size",
    description: "Mean over the batches of the window: larger is cheaper.",
    unit: "none",
    targets: [
      {
        expr: share(
          sumBy("model", rate(`tutti_batched_requests_total${MODEL}`)),
          sumBy("model", rate(`tutti_batches_total${MODEL}`)),
        ),
        legend: "{{model}}",
      },
    ],
  },
  {
    title: "Accelerators, share of time busy",
    description:
      "All near one: full. Late binding leaves the highest ids idle, which are those that can be given back.",
    unit: "percentunit",
    targets: [{ expr: rate("tutti_accelerator_busy_seconds_total"), legend: "{{gpu}}" }],
  },
  {
    title: "Through the gateway: p99 by application",
    description: "From a request's body to its answer.",
    unit: "s",
    targets: [
      {
        expr: quantile(0.99, "app, slo_class", "tutti_gateway_request_duration_seconds"),
        legend: "{{app}} (SLO {{slo_class}})",
      },
    ],
  },
  {
    title: "Through the gateway: not in time, by application and SLO class",
    description: "Share of its requests that were refused or late.",
    unit: "percentunit",
    targets: [
      {
        expr: `1 - ${share(sumBy("app, slo_class", rate("tutti_gateway_good_total")), sumBy("app, slo_class", rate("tutti_gateway_requests_total")))}`,
        legend: "{{app}} (SLO {{slo_class}})",
      },
    ],
  },
  {
    title: "Deferral through the gateway",
    description: "From arrival to the start of the run: half wait for less than this.",
    unit: "s",
    targets: [{ expr: quantile(0.5, "model", "tutti_gateway_queue_seconds"), legend: "{{model}}" }],
  },
  {
    title: "Late starts",
    description:
      "Share of batches that could start only after more than was set aside for it: about 5 % where delays are what they were.",
    unit: "percentunit",
    targets: [
      {
        expr: share(
          sumBy("model", rate(`tutti_late_starts_total${MODEL}`)),
          sumBy("model", rate(`tutti_started_batches_total${MODEL}`)),
        ),
        legend: "{{model}}",
      },
    ],
  },
  {
    title: "Actors",
    description: "Those that are heard, and how often another ranker took over.",
    unit: "none",
    targets: [
      { expr: "tutti_actors", legend: "{{role}}" },
      { expr: "increase(tutti_takeovers_total[$__rate_interval])", legend: "takeovers {{sub_cluster}}" },
    ],
  },
  {
    title: "How late timers are, and how long turns of the event loop",
    description: "At the actor where it is worst. Milliseconds here are batches that start late.",
    unit: "s",
    targets: [
      { expr: "tutti_timer_lateness_seconds", legend: "timers {{role}}" },
      {
        expr: 'tutti_event_loop_turn_seconds{percentile=~"99.9|100"}',
        legend: "event loop {{role}}, p{{percentile}}",
      },
    ],
  },
];

const JOBS: readonly PanelText[] = [
  {
    title: "Jobs done",
    description: "By model, over the last seconds. Jobs run in accelerator time that no request needs.",
    unit: "ops",
    targets: [{ expr: `tutti_job_rate${MODEL}`, legend: "{{model}}" }],
  },
  {
    title: "Backlog of jobs",
    description: "In the durable queue, those in flight included. Growing for hours: `tutti jobs` says when it ends.",
    unit: "none",
    targets: [{ expr: `tutti_job_backlog${MODEL}`, legend: "{{model}}" }],
  },
  {
    title: "Expected end of the backlog",
    description: "Time until the queue is empty at the rate of now; without a value where nothing moves.",
    unit: "s",
    targets: [{ expr: share(`tutti_job_backlog${MODEL}`, `tutti_job_rate${MODEL}`), legend: "{{model}}" }],
  },
  {
    title: "Accelerator time by use",
    description: "Share of all accelerators' time that requests and jobs use; the rest is idle.",
    unit: "percentunit",
    targets: [
      { expr: `avg(${REQUEST_TIME})`, legend: "requests" },
      { expr: `avg(${JOB_TIME})`, legend: "jobs" },
    ],
  },
  {
    title: "Jobs refused, by cause",
    description:
      "Each is tried again, or becomes a dead letter. OVERLOADED and DEADLINE_INFEASIBLE: requests leave no time.",
    unit: "ops",
    targets: [{ expr: sumBy("model, cause", rate(`tutti_jobs_refused_total${MODEL}`)), legend: "{{model}} {{cause}}" }],
  },
  {
    title: "Dead letters, by cause",
    description: "Jobs that were given up and are kept with their inputs: `tutti jobs dead` lists them.",
    unit: "none",
    targets: [{ expr: `tutti_dead_jobs${MODEL}`, legend: "{{model}} {{cause}}" }],
  },
];

const COLUMNS = 24;
const PANEL_HEIGHT = 8;
const SOURCE = { type: "prometheus", uid: "${source}" };

/** The dashboard as Grafana imports it (schema 39, Grafana 10 and newer). */
export function dashboard(): object {
  let [x, y, id] = [0, 0, 0];
  const place = (width: number, height: number): object => {
    if (x + width > COLUMNS) [x, y] = [0, y + height];
    const position = { x, y, w: width, h: height };
    x += width;
    return position;
  };
  const heading = (title: string): object => {
    [x, y] = [0, y + PANEL_HEIGHT];
    const gridPos = { x, y, w: COLUMNS, h: 1 };
    y++;
    return { id: ++id, type: "row", title, collapsed: false, gridPos, panels: [] };
  };
  const panel = (
    { title, description, unit, targets, kind = "timeseries", width = 12 }: PanelText,
    height: number,
  ): object => ({
    id: ++id,
    type: kind,
    title,
    description,
    datasource: SOURCE,
    gridPos: place(width, height),
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options:
      kind === "stat"
        ? { reduceOptions: { calcs: ["lastNotNull"] } }
        : { legend: { showLegend: true, placement: "bottom" } },
    targets: targets.map(({ expr, legend }, i) => ({
      refId: String.fromCharCode(65 + i),
      datasource: SOURCE,
      expr,
      legendFormat: legend,
    })),
  });
  const stats = STATS.map((text) => panel({ width: COLUMNS / STATS.length, ...text }, 4));
  [x, y] = [0, 4];
  const panels = PANELS.map((text) => panel(text, PANEL_HEIGHT));
  const jobs = [heading("Background jobs"), ...JOBS.map((text) => panel(text, PANEL_HEIGHT))];
  return {
    uid: "tutti-overview",
    title: "Tutti",
    tags: ["tutti", "inference"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    refresh: "10s",
    time: { from: "now-30m", to: "now" },
    templating: {
      list: [
        { name: "source", type: "datasource", query: "prometheus", label: "Prometheus" },
        {
          name: "model",
          type: "query",
          label: "Model",
          datasource: SOURCE,
          query: { query: "label_values(tutti_requests_total, model)", refId: "models" },
          multi: true,
          includeAll: true,
          allValue: ".*",
          refresh: 2,
          current: { text: "All", value: "$__all" },
        },
      ],
    },
    panels: [...stats, ...panels, ...jobs],
  };
}
