/** docs/reference/metrics.md: the gateway's Prometheus metrics, listed by registering all of them. */
import { declaredMetrics } from "@tutti/gateway";
import { table } from "./code-comments.ts";

export function metricsReference(): string {
  const metrics = declaredMetrics();
  const part = (title: string, fits: (name: string) => boolean): string =>
    `## ${title}\n\n${table(
      ["metric", "type", "labels", "what"],
      metrics
        .filter(({ name }) => fits(name))
        .map(({ name, type, labels, help }) => [
          `\`${name}\``,
          type,
          labels.map((one) => `\`${one}\``).join(", "),
          help,
        ]),
    )}`;
  const isTritons = (name: string): boolean => name.startsWith("nv_");
  const isOwn = (name: string): boolean => name.startsWith("tutti_gateway_");
  return [
    "# Metrics",
    "`/metrics` of a gateway, port 8002 where it is free. Times are in seconds under our names, and in microseconds under Triton's. A dashboard and alerts: [infra/dashboards](../../infra/dashboards/README.md). A metric without a value now (no model, no planner) is left out.",
    part("The cluster", (name) => !isTritons(name) && !isOwn(name)),
    part("This gateway's own requests", isOwn),
    part("Under the names that Triton's dashboards know", isTritons),
  ].join("\n\n");
}
