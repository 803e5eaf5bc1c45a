/** Prometheus rules: alerts that page somebody, and alerts that can wait for the morning. */
import { rate, share, sumBy } from "./metric-query.ts";

/** Share of requests that must be answered in time. Raise it here where applications are promised more. */
const OBJECTIVE = 0.99;
const RUNBOOK = "docs/README.md";

/** Bounds on turns of an event loop that schedules, the same as those of `tutti doctor`. */
const TURN_MAX_SECONDS = 0.003;
const TURN_P999_SECONDS = 0.001;
const SCHEDULING_TURNS = 'tutti_event_loop_turn_seconds{role=~"batcher|ranker"';

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: { readonly severity: "page" | "ticket" };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook: string };
}
interface Recorded {
  readonly record: string;
  readonly expr: string;
}

const alert = (
  name: string,
  {
    expr,
    wait,
    severity,
    summary,
    description,
  }: { expr: string; wait: string; severity: "page" | "ticket"; summary: string; description: string },
): Alert => ({
  alert: name,
  expr,
  for: wait,
  labels: { severity },
  annotations: { summary, description, runbook: RUNBOOK },
});

const WINDOWS = ["5m", "30m", "1h", "6h"] as const;
const badRatio = (window: string): string => `tutti:bad:ratio_rate${window}`;

/** Share of requests that were not answered in time, by model. */
const recorded: readonly Recorded[] = WINDOWS.map((window) => ({
  record: badRatio(window),
  expr: `1 - ${share(sumBy("model", rate("tutti_good_total", window)), sumBy("model", rate("tutti_requests_total", window)))}`,
}));

/**
 * The error budget of 30 days burns `factor` times as fast as it may (Google SRE workbook, chapter 5). Two windows have
 * to agree, so that the alert ends when the trouble does.
 */
const burns = (factor: number, long: string, short: string): string => {
  const most = Number((factor * (1 - OBJECTIVE)).toFixed(6));
  return `${badRatio(long)} > ${most} and ${badRatio(short)} > ${most}`;
};

/**
 * A batcher or ranker whose process stood still, by the metric of some time ago. It tells the worst of a minute, which
 * after a start is that of loading and compiling.
 */
const stalls = (ago = ""): string => {
  const worst = (percentile: string): string =>
    `max by (role) (${SCHEDULING_TURNS},percentile="${percentile}"}${ago && ` offset ${ago}`})`;
  return `(${worst("100")} > ${TURN_MAX_SECONDS} or ${worst("99.9")} > ${TURN_P999_SECONDS})`;
};

const alerts: readonly Alert[] = [
  alert("TuttiBudgetBurnsFast", {
    expr: burns(14.4, "1h", "5m"),
    wait: "2m",
    severity: "page",
    summary:
      "{{ $labels.model }} misses its SLO: {{ $value | humanizePercentage }} of its requests are not answered in time",
    description:
      "At this rate two percent of a month's budget go in an hour. `tutti top` shows where the time goes, `tutti plan --live` what the planner would do.",
  }),
  alert("TuttiBudgetBurns", {
    expr: burns(6, "6h", "30m"),
    wait: "15m",
    severity: "ticket",
    summary:
      "{{ $labels.model }} uses up its error budget: {{ $value | humanizePercentage }} of its requests are not answered in time",
    description: "At this rate five percent of a month's budget go in six hours.",
  }),
  alert("TuttiBadRate", {
    expr: `${badRatio("5m")} > 0.2 and ${sumBy("model", rate("tutti_requests_total", "5m"))} > 1`,
    wait: "1m",
    severity: "page",
    summary: "One in five requests of {{ $labels.model }} is refused or late",
    description:
      "tutti_refused_total says for what. OVERLOADED: add accelerators, tutti_advice_accelerators says how many.",
  }),
  alert("TuttiNoLeader", {
    expr: "max by (sub_cluster) (tutti_ranker_epoch) == 0 or absent(tutti_ranker_epoch)",
    wait: "15s",
    severity: "page",
    summary: "No ranker leads: nothing new is started",
    description:
      "`tutti status` lists the rankers. A spare takes over within milliseconds unless none is there, or JetStream can't be written.",
  }),
  alert("TuttiModelQuarantined", {
    expr: 'tutti_models{state="quarantined"} > 0',
    wait: "0s",
    severity: "ticket",
    summary: "{{ $value }} models are quarantined: they ended or hung their executors",
    description: "`tutti models` says which and why; `tutti load` of a better file, or of the same one, lifts it.",
  }),
  alert("TuttiModelFailed", {
    expr: 'sum(tutti_models{state=~"failed|refused"}) > 0',
    wait: "5m",
    severity: "ticket",
    summary: "{{ $value }} models are not served: no executor can load them, or none is fast enough for their SLO",
    description:
      "`tutti models` says which and why. `tutti load` of a better file, or with a longer SLO, serves a model again; `tutti unload` ends this alert.",
  }),
  alert("TuttiModelStalled", {
    expr: "tutti_model_stalled > 0",
    wait: "0s",
    severity: "page",
    summary: "{{ $labels.model }} answered none of its requests for seconds, though accelerators serve",
    description:
      "Its batcher starts it anew every 2 s, and one that goes on firing is not helped by that: `tutti restart` its batcher, then its executors.",
  }),
  alert("TuttiAcceleratorsHalted", {
    expr: 'tutti_accelerators{state="halted"} > 0',
    wait: "5m",
    severity: "ticket",
    summary: "{{ $value }} accelerators are there and do not serve",
    description: "They load, drain or profile, for minutes. `tutti logs` of their executors says what holds them up.",
  }),
  alert("TuttiNoAccelerator", {
    expr: 'sum(tutti_accelerators{state="serving"}) == 0',
    wait: "15s",
    severity: "page",
    summary: "No accelerator serves",
    description: "Every request is refused. `tutti status` lists the executors.",
  }),
  alert("TuttiSchedulerStalls", {
    // Two minutes apart: that of a start is in one of them alone.
    expr: `${stalls()} and on (role) ${stalls("2m")}`,
    wait: "10m",
    severity: "ticket",
    summary:
      "The process of a {{ $labels.role }} stands still for {{ $value | humanizeDuration }} at a time: grants are late, and requests with them",
    description:
      "tutti_event_loop_gc_ratio is the share of garbage collection. `tutti doctor` says whether the machine is busy with something else.",
  }),
  alert("TuttiNoSpare", {
    // A cluster of one node has none by choice, and two rankers for the moments of a restart. It is told for a week.
    expr: "tutti_ranker_spares == 0 and on (sub_cluster) max by (sub_cluster) (max_over_time(min_over_time(tutti_ranker_spares[10m])[7d:10m])) > 0",
    wait: "10m",
    severity: "ticket",
    summary:
      "The leading ranker of {{ $labels.sub_cluster }} has lost its spare: its end would stop everything until it is started again",
    description: "Start another: `tutti run ranker`.",
  }),
  alert("TuttiTooFewAccelerators", {
    expr: 'tutti_advice_accelerators > on () sum(tutti_accelerators{state="serving"})',
    wait: "10m",
    severity: "ticket",
    summary: "The planner has asked for {{ $value }} accelerators for ten minutes",
    description: "`tutti up --autoscale`, or the autoscaler that reads /scaling, does it by itself.",
  }),
  alert("TuttiJobsStand", {
    // For half an hour it was at no moment of the last hour below the hour's beginning, and more jobs wait than that
    // hour got done. Bursts of submissions that get done are no trouble, nor is a queue that is always kept filled.
    expr: "min_over_time(tutti_job_backlog[1h]) >= (tutti_job_backlog offset 1h > 0) and on (model) tutti_job_backlog > 3600 * avg_over_time(tutti_job_rate[1h])",
    wait: "30m",
    severity: "ticket",
    summary: "The backlog of jobs of {{ $labels.model }} does not shrink: {{ $value }} jobs wait",
    description:
      "`tutti jobs` says how many are done a second. None: tutti_jobs_refused_total says why. Some: requests leave too little time, and accelerators must be added or less submitted.",
  }),
  alert("TuttiDeadJobs", {
    expr: "tutti_dead_jobs > 0",
    wait: "1m",
    severity: "ticket",
    summary: "{{ $value }} jobs of {{ $labels.model }} were given up: {{ $labels.cause }}",
    description:
      "`tutti jobs dead` lists them with the reasons; with --requeue they are tried again, with --remove they and this alert go.",
  }),
  alert("TuttiGatewayDown", {
    expr: 'absent(up{job="tutti"}) or up{job="tutti"} == 0',
    wait: "1m",
    severity: "page",
    summary: "No metrics from Tutti: HTTP and gRPC may be down with their gateway",
    description: "Publishers over NATS are not affected. `tutti status` lists the gateways.",
  }),
];

export const rules = (): object => ({
  groups: [
    { name: "tutti-ratios", interval: "15s", rules: recorded },
    { name: "tutti-alerts", interval: "15s", rules: alerts },
  ],
});

/** States of models that serve nothing until somebody acts. */
const UNSERVED = ["quarantined", "failed", "refused"] as const;

const turnsOf = (role: string, percentile: string): string =>
  `tutti_event_loop_turn_seconds{role="${role}",percentile="${percentile}"}`;
/** Turns in seconds that are no trouble: executors are not judged. */
const SHORT_TURNS = {
  [turnsOf("batcher", "100")]: 0.002,
  [turnsOf("batcher", "99.9")]: 5e-4,
  [turnsOf("executor", "100")]: 1,
};
/** Turns in seconds while a node loads and compiles, as one of the default layout had them. */
const START_TURNS = {
  [turnsOf("batcher", "100")]: 0.38,
  [turnsOf("batcher", "99.9")]: 0.039,
};
/** Turns in seconds of which each alone is one. */
const STALLS = { [turnsOf("batcher", "100")]: 0.02, [turnsOf("batcher", "99.9")]: 0.0015 };

const constant = (value: number): string => `${value}x400`;
const rising = (perStep: number): string => `0+${perStep}x400`;
const HOURLY = Array.from({ length: 7 }, () => "3600-60x59").join(" ");
/** Series of a cluster in which all is well. */
const WELL: readonly { readonly series: string; readonly values: string }[] = [
  { series: 'up{job="tutti"}', values: constant(1) },
  { series: 'tutti_requests_total{model="m"}', values: rising(1_000) },
  { series: 'tutti_good_total{model="m"}', values: rising(1_000) },
  { series: 'tutti_ranker_epoch{sub_cluster="main"}', values: constant(7) },
  { series: 'tutti_ranker_spares{sub_cluster="main"}', values: constant(1) },
  ...UNSERVED.map((state) => ({ series: `tutti_models{state="${state}"}`, values: constant(0) })),
  { series: 'tutti_model_stalled{model="m"}', values: constant(0) },
  { series: 'tutti_accelerators{state="serving"}', values: constant(4) },
  { series: 'tutti_accelerators{state="halted"}', values: constant(0) },
  { series: "tutti_advice_accelerators", values: constant(4) },
  ...Object.entries(SHORT_TURNS).map(([series, s]) => ({ series, values: constant(s) })),
  // An hour's work that is submitted every hour, and done within it.
  { series: 'tutti_job_backlog{model="m"}', values: HOURLY },
  { series: 'tutti_job_rate{model="m"}', values: constant(1) },
  { series: 'tutti_dead_jobs{model="m",cause="TUTTI_INTERNAL"}', values: constant(0) },
];

/** A cluster of one node, which has no spare: none of the alerts so much as pends. @param before - scrapes */
const start = (name: string, before: number): object => ({
  interval: "5s",
  name,
  input_series: WELL.map(({ series, values }) => {
    if (series.startsWith("tutti_ranker_spares")) return { series, values: `0x${before} 1x1 0x400` };
    const during = START_TURNS[series];
    // The longest turn is told for a minute.
    return { series, values: during === undefined ? values : `0.0005x${before} ${during}x11 0.0005x400` };
  }),
  promql_expr_test: ["15s", "1m", "2m", "190s", "3m", "310s", "6m", "12m", "20m"].map((time) => ({
    expr: "ALERTS",
    eval_time: time,
    exp_samples: [],
  })),
});

/** Input for `promtool test rules`: each alert fires when it should, and none fires while all is well. */
export function rulesTest(file: string): object {
  const names = alerts.map(({ alert: name }) => name);
  const scene = (changes: Readonly<Record<string, string>>, fires: readonly string[], evalTime = "30m"): object => ({
    interval: "1m",
    name: fires.join(", ") || "all is well",
    input_series: WELL.filter(({ series }) => changes[series] !== "").map(({ series, values }) => ({
      series,
      values: changes[series] ?? values,
    })),
    promql_expr_test: names.map((name) => ({
      // The test compares labels alone: the texts of alerts are for people, and may change.
      expr: `count by (alertname) (ALERTS{alertname="${name}", alertstate="firing"})`,
      eval_time: evalTime,
      exp_samples: fires.includes(name) ? [{ labels: `{alertname="${name}"}`, value: 1 }] : [],
    })),
  });
  return {
    rule_files: [file],
    evaluation_interval: "15s",
    tests: [
      scene({}, []),
      start("a node starts", 0),
      start("a node starts anew", 36),
      scene({ 'tutti_good_total{model="m"}': rising(500) }, [
        "TuttiBudgetBurnsFast",
        "TuttiBudgetBurns",
        "TuttiBadRate",
      ]),
      // 7 % of requests are bad: nobody is paged, and within hours the error budget suffers.
      scene({ 'tutti_good_total{model="m"}': rising(930) }, ["TuttiBudgetBurns"], "390m"),
      scene({ 'tutti_ranker_epoch{sub_cluster="main"}': constant(0) }, ["TuttiNoLeader"]),
      scene({ 'tutti_ranker_epoch{sub_cluster="main"}': "" }, ["TuttiNoLeader"]),
      scene({ 'tutti_models{state="quarantined"}': constant(2) }, ["TuttiModelQuarantined"]),
      scene({ 'tutti_models{state="failed"}': constant(1) }, ["TuttiModelFailed"]),
      scene({ 'tutti_models{state="refused"}': constant(1) }, ["TuttiModelFailed"]),
      scene({ 'tutti_model_stalled{model="m"}': constant(1) }, ["TuttiModelStalled"]),
      scene({ 'tutti_accelerators{state="halted"}': constant(1) }, ["TuttiAcceleratorsHalted"]),
      scene({ 'tutti_accelerators{state="serving"}': constant(0), tutti_advice_accelerators: constant(0) }, [
        "TuttiNoAccelerator",
      ]),
      scene({ 'tutti_ranker_spares{sub_cluster="main"}': "1x12 0x400" }, ["TuttiNoSpare"]),
      ...Object.entries(STALLS).map(([series, s]) => scene({ [series]: constant(s) }, ["TuttiSchedulerStalls"])),
      scene({ tutti_advice_accelerators: constant(6) }, ["TuttiTooFewAccelerators"]),
      scene({ 'tutti_job_backlog{model="m"}': rising(60) }, ["TuttiJobsStand"], "100m"),
      scene(
        { 'tutti_job_backlog{model="m"}': constant(500), 'tutti_job_rate{model="m"}': constant(0) },
        ["TuttiJobsStand"],
        "100m",
      ),
      // A publisher that submits another job for each that is done.
      scene({ 'tutti_job_backlog{model="m"}': constant(500) }, [], "390m"),
      scene({ 'tutti_dead_jobs{model="m",cause="TUTTI_INTERNAL"}': constant(3) }, ["TuttiDeadJobs"]),
      scene({ 'up{job="tutti"}': constant(0) }, ["TuttiGatewayDown"]),
      scene({ 'up{job="tutti"}': "" }, ["TuttiGatewayDown"]),
    ],
  };
}
