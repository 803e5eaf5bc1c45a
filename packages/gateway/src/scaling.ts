import type { ScalingAdvised } from "@tutti/protocol";
import { type Instant, type Micros, between, seconds } from "@tutti/units";

/** Age from which advice is out of date; the planner publishes it every second. */
export const ADVICE_LASTS: Micros = seconds(5);

/** Name in Prometheus and Kubernetes of the advised number of accelerators. */
export const ADVICE_METRIC = "tutti_advice_accelerators";
const EXTERNAL_METRICS = "/apis/external.metrics.k8s.io/v1beta1";
const METRIC = new RegExp(`^${EXTERNAL_METRICS}/namespaces/[a-z0-9-]+/([^/]+)$`);

export interface ScalingAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The answer of an advice path; undefined for any other path. @param advised - the last advice received */
export function scalingAnswer(
  path: string,
  advised: ScalingAdvised | undefined,
  now: Instant,
): ScalingAnswer | undefined {
  if (path === EXTERNAL_METRICS) return { status: 200, body: RESOURCES };
  const metric = METRIC.exec(path)?.[1];
  if (path !== "/scaling" && metric === undefined) return undefined;
  if (metric !== undefined && metric !== ADVICE_METRIC)
    return { status: 404, body: statusOf(404, "NotFound", `the only metric is ${ADVICE_METRIC}`) };
  if (advised === undefined || between(advised.at, now) > ADVICE_LASTS) {
    const text = "no planner has given advice for 5 s: keep as many accelerators as there are";
    return { status: 503, body: metric === undefined ? { error: text } : statusOf(503, "ServiceUnavailable", text) };
  }
  const { at, advice, gpus, badRate, idleShare } = advised;
  const accelerators = Math.max(1, gpus + advice);
  return metric === undefined
    ? { status: 200, body: { accelerators, gpus, advice, badRate, idleShare, at: timeOf(at) } }
    : { status: 200, body: valueList(accelerators, at) };
}

const RESOURCES = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion: "external.metrics.k8s.io/v1beta1",
  resources: [
    { name: ADVICE_METRIC, singularName: "", namespaced: true, kind: "ExternalMetricValueList", verbs: ["get"] },
  ],
};

const valueList = (accelerators: number, at: Instant): ScalingAnswer["body"] => ({
  kind: "ExternalMetricValueList",
  apiVersion: "external.metrics.k8s.io/v1beta1",
  metadata: {},
  items: [{ metricName: ADVICE_METRIC, metricLabels: {}, timestamp: timeOf(at), value: String(accelerators) }],
});

/** A failure in the form of the API machinery of Kubernetes. */
const statusOf = (code: number, reason: string, message: string): ScalingAnswer["body"] => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message,
  reason,
  code,
});

const timeOf = (at: Instant): string => new Date(at / 1_000).toISOString();
