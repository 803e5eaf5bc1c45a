/**
 * The cluster's metrics for Prometheus, from its actors' reports. Tutti's own are in seconds, and Triton's under the
 * names that its dashboards know. Collected on each scrape.
 */
import type { ScalingAdvised } from "@tutti/protocol";
import { Counter, Gauge, type Registry } from "prom-client";
import { acceleratorMetrics, actorMetrics } from "./actor-metrics.ts";
import type { ClusterView, Declaration } from "./declaration.ts";
import { jobMetrics } from "./job-metrics.ts";
import { modelMetrics } from "./model-metrics.ts";
import { partMetrics } from "./part-metrics.ts";
import { rolloutMetrics } from "./rollout-metrics.ts";
import { tritonMetrics } from "./triton-metrics.ts";

/** @param registry - gets all metrics */
export function clusterMetrics(registry: Registry, view: ClusterView): void {
  for (const declaration of [
    ...modelMetrics(view),
    ...jobMetrics(view),
    ...tritonMetrics(view),
    ...acceleratorMetrics(view),
    ...actorMetrics(view),
    ...planMetrics(view),
    ...rolloutMetrics(view),
    ...partMetrics(view),
  ])
    register(registry, declaration);
}

/** Registers a metric whose values are kept elsewhere and read on each scrape. */
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
        // A reset of a gauge without labels leaves a zero, which would be reported where no value is known.
        if (labels.length === 0) this.remove();
        for (const [own, value] of rows()) this.set(own, value);
      },
    });
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
