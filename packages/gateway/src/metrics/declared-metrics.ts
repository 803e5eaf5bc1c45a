/** All metrics that a gateway registers, without a cluster: for the reference, and for tools that check queries. */
import { Registry } from "prom-client";
import { clusterMetrics } from "./cluster-metrics.ts";
import { OwnMetrics } from "./own-metrics.ts";

export interface DeclaredMetric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
}

export function declaredMetrics(): DeclaredMetric[] {
  const registry = new Registry();
  const none = (): [] => [];
  clusterMetrics(registry, {
    ...{
      models: none,
      totalsOf: () => undefined,
      jobsOf: () => undefined,
      gpus: () => new Map(),
    },
    ...{ living: none, peersOf: none, takeovers: () => new Map(), advised: () => undefined, routes: none, parts: none },
  });
  new OwnMetrics(registry, { inFlight: () => 0, apps: () => 0, bodyBytes: () => 0 });
  // Every version of prom-client has these properties, though its types lack them.
  const metrics = registry.getMetricsAsArray() as unknown as (DeclaredMetric & { labelNames?: string[] })[];
  return metrics.map(({ name, type, help, labelNames = [] }) => ({ name, type, help, labels: labelNames }));
}
