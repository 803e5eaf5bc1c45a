/** Metrics of the requests through this gateway, which sees each of them: histograms. */
import { Gauge, type Registry } from "prom-client";
import type { RequestNoted } from "../oip/inference.ts";
import { LabelBudget, type RequestLabels } from "./label-budget.ts";
import { BucketCounts, type CountedMetric, type Sample, registerCounted } from "./series.ts";

const REQUEST = ["model", "app", "slo_class"] as const;
/** From a small model's run to the longest wait that users accept. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256];

export interface OwnGauges {
  readonly inFlight: () => number;
  readonly apps: () => number;
  readonly bodyBytes: () => number;
}

/** Requests with the same labels. */
class RequestSeries {
  readonly outcomes = new Map<string, number>();
  readonly duration = new BucketCounts(SECONDS);
  good = 0;
}

/** Rows of one model. */
class RowSeries {
  readonly queue = new BucketCounts(SECONDS);
  readonly batchSize = new BucketCounts(BATCH_SIZES);
}

export class OwnMetrics {
  readonly #budget = new LabelBudget();
  readonly #requests = new Map<RequestLabels, RequestSeries>();
  readonly #rows = new Map<string, RowSeries>();
  readonly #decoding = new Map<string, BucketCounts>();

  constructor(registry: Registry, gauges: OwnGauges) {
    for (const metric of [...this.#requestMetrics(), ...this.#rowMetrics()]) registerCounted(registry, metric);
    const gauge = (name: string, help: string, value: () => number): unknown =>
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(value());
        },
      });
    gauge("tutti_gateway_in_flight", "Rows that this gateway waits for", gauges.inFlight);
    gauge("tutti_gateway_applications", "Applications in whose name this gateway asks", gauges.apps);
    gauge("tutti_gateway_body_bytes", "Bodies that this gateway holds", gauges.bodyBytes);
  }

  note({ model, app, sloS, outcome, durationS, decodeS, rows }: RequestNoted): void {
    const labels = this.#budget.labelsOf(model, app, sloS);
    let series = this.#requests.get(labels);
    if (series === undefined) this.#requests.set(labels, (series = new RequestSeries()));
    series.outcomes.set(outcome, (series.outcomes.get(outcome) ?? 0) + 1);
    series.duration.observe(durationS);
    if (decodeS !== undefined) {
      let decoding = this.#decoding.get(labels.model);
      if (decoding === undefined) this.#decoding.set(labels.model, (decoding = new BucketCounts(SECONDS)));
      decoding.observe(decodeS);
    }
    if (outcome !== "ok") return;
    if (durationS <= sloS) series.good++;
    let ofRows = this.#rows.get(labels.model);
    if (ofRows === undefined) this.#rows.set(labels.model, (ofRows = new RowSeries()));
    for (const { queueUs, batchSize } of rows) {
      if (queueUs !== undefined) ofRows.queue.observe(queueUs / 1e6);
      if (batchSize !== undefined) ofRows.batchSize.observe(batchSize);
    }
  }

  #requestMetrics(): CountedMetric[] {
    const of = (samples: (labels: RequestLabels, series: RequestSeries) => Iterable<Sample>) => () =>
      [...this.#requests].flatMap(([labels, series]) => [...samples(labels, series)]);
    const duration = "tutti_gateway_request_duration_seconds";
    return [
      {
        type: "counter",
        name: "tutti_gateway_requests_total",
        help: "Requests that came through this gateway, by what became of them: ok, or the code of the refusal",
        labelNames: [...REQUEST, "outcome"],
        samples: of((labels, { outcomes }) =>
          [...outcomes].map(([outcome, value]) => ({ labels: { ...labels, outcome }, value })),
        ),
      },
      {
        type: "counter",
        name: "tutti_gateway_good_total",
        help: "Requests through this gateway that were answered within their SLO",
        labelNames: REQUEST,
        samples: of((labels, { good }) => (good === 0 ? [] : [{ labels: { ...labels }, value: good }])),
      },
      {
        type: "histogram",
        name: duration,
        help: "From a request's body, or the first byte of a picture or sound, to its answer, refusals included",
        labelNames: REQUEST,
        samples: of((labels, series) => series.duration.samples(duration, { ...labels })),
      },
    ];
  }

  #rowMetrics(): CountedMetric[] {
    const histogramOf = <Series>(
      all: ReadonlyMap<string, Series>,
      name: string,
      help: string,
      read: (series: Series) => BucketCounts,
    ): CountedMetric => ({
      ...{ type: "histogram", name, help, labelNames: ["model"] },
      samples: () => [...all].flatMap(([model, series]) => [...read(series).samples(name, { model })]),
    });
    const histogram = (name: string, help: string, read: (series: RowSeries) => BucketCounts): CountedMetric =>
      histogramOf(this.#rows, name, help, read);
    return [
      histogramOf(
        this.#decoding,
        "tutti_gateway_decode_seconds",
        "From a picture or sound as a whole to its tensors or its refusal, waiting for a thread included",
        (counts) => counts,
      ),
      histogram(
        "tutti_gateway_queue_seconds",
        "From a row's arrival at an ingress to the start of its run, deferral included",
        ({ queue }) => queue,
      ),
      histogram("tutti_gateway_batch_size", "Rows of the batch that a row ran in", ({ batchSize }) => batchSize),
    ];
  }
}
