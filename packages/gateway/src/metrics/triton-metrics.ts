/** Triton's metrics under the names that its dashboards know. */
import { publicNameOf } from "@tutti/protocol";
import type { ModelTotals } from "./cluster-figures.ts";
import type { ClusterView, Declaration } from "./declaration.ts";
import { ofThreads } from "./model-metrics.ts";

type TritonCounter = (
  name: string,
  help: string,
  read: (totals: Readonly<ModelTotals> | undefined) => number,
) => Declaration;

/** Compute times per request, as Triton counts: each request of a batch spends the whole of the batch's time. */
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
 * The metrics of https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
 * that our actors can report.
 */
export function tritonMetrics(view: ClusterView): Declaration[] {
  const counter: TritonCounter = (name, help, read) => ({
    type: "counter",
    name,
    help,
    labels: ["model", "version"],
    *rows() {
      for (const { spec } of view.models())
        yield [{ model: publicNameOf(spec.name), version: spec.version }, read(view.totalsOf(spec.name))];
    },
  });
  return [
    counter("nv_inference_request_success", "Successful requests", (totals) => totals?.ok ?? 0),
    counter("nv_inference_count", "Requests that ran and were answered", (totals) => totals?.ok ?? 0),
    counter(
      "nv_inference_exec_count",
      "Batches that ran, without those of warm-up requests alone",
      (totals) => totals?.batches ?? 0,
    ),
    counter(
      "nv_inference_request_duration_us",
      "Time of successful requests, in microseconds",
      (totals) => totals?.latencyUs ?? 0,
    ),
    counter(
      "nv_inference_queue_duration_us",
      "Time of successful requests from arrival to the start of the run, in microseconds",
      (totals) => totals?.queueUs ?? 0,
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
