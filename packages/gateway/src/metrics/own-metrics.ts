/** Metrics of the requests through this gateway, which sees each of them: histograms. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { RequestNoted } from "../oip/inference.ts";
import { LabelBudget } from "./label-budget.ts";

const REQUEST = ["model", "app", "slo_class"] as const;
/** From a small model's run to the longest wait that users accept. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256];

export interface OwnGauges {
  readonly inFlight: () => number;
  readonly apps: () => number;
  readonly bodyBytes: () => number;
}

export class OwnMetrics {
  readonly #budget = new LabelBudget();
  readonly #requests: Counter<(typeof REQUEST)[number] | "outcome">;
  readonly #good: Counter<(typeof REQUEST)[number]>;
  readonly #duration: Histogram<(typeof REQUEST)[number]>;
  readonly #queue: Histogram<"model">;
  readonly #batchSize: Histogram<"model">;

  constructor(registry: Registry, gauges: OwnGauges) {
    const registers = [registry];
    this.#requests = new Counter({
      name: "tutti_gateway_requests_total",
      help: "Requests that came through this gateway, by what became of them: ok, or the code of the refusal",
      labelNames: [...REQUEST, "outcome"],
      registers,
    });
    this.#good = new Counter({
      name: "tutti_gateway_good_total",
      help: "Requests through this gateway that were answered within their SLO",
      labelNames: REQUEST,
      registers,
    });
    this.#duration = new Histogram({
      name: "tutti_gateway_request_duration_seconds",
      help: "From a request's body to its answer, refusals included",
      labelNames: REQUEST,
      buckets: SECONDS,
      registers,
    });
    this.#queue = new Histogram({
      name: "tutti_gateway_queue_seconds",
      help: "From a row's arrival at an ingress to the start of its run, deferral included",
      labelNames: ["model"],
      buckets: SECONDS,
      registers,
    });
    this.#batchSize = new Histogram({
      name: "tutti_gateway_batch_size",
      help: "Rows of the batch that a row ran in",
      labelNames: ["model"],
      buckets: BATCH_SIZES,
      registers,
    });
    const gauge = (name: string, help: string, value: () => number): unknown =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(value());
        },
      });
    gauge("tutti_gateway_in_flight", "Rows that this gateway waits for", gauges.inFlight);
    gauge("tutti_gateway_applications", "Applications in whose name this gateway asks", gauges.apps);
    gauge("tutti_gateway_body_bytes", "Bodies that this gateway holds", gauges.bodyBytes);
  }

  note(noted: RequestNoted): void {
    const labels = this.#budget.labelsOf(noted);
    this.#requests.inc({ ...labels, outcome: noted.outcome });
    this.#duration.observe(labels, noted.durationS);
    if (noted.outcome !== "ok") return;
    if (noted.durationS <= noted.sloS) this.#good.inc(labels);
    const { model } = labels;
    for (const { queueUs, batchSize } of noted.rows) {
      if (queueUs !== undefined) this.#queue.observe({ model }, queueUs / 1e6);
      if (batchSize !== undefined) this.#batchSize.observe({ model }, batchSize);
    }
  }
}
