import { DiagLogLevel, diag } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Logger, Tracer } from "@tutti/ports/telemetry";
import type { TelemetryOptions } from "./create-telemetry.ts";
import { Allowance, ChosenIds, OtelTracer } from "./otel-tracer.ts";

/** One link for each request of the largest batch; the SDK's default of 128 would lose the others. */
const SPAN_LINKS_MAX = 1_024;
const SPANS_QUEUED_MAX = 8_192;
const EXPORT_EVERY_MS = 1_000;
const EXPORT_TIMEOUT_MS = 5_000;
/** Interval of the exporter's error lines. Errors come with every batch of spans, and a line a minute says as much. */
const TROUBLE_EVERY_MS = 60_000;

export type TracedService = Pick<TelemetryOptions, "service" | "instance">;

export interface Traces {
  readonly tracer: Tracer;
  /** Spans of another service, sent with the others and within the same bounds. */
  tracerOf(service: TracedService): Tracer;
  close(): Promise<void>;
}

export interface TracesOptions extends Pick<TelemetryOptions, "service" | "instance" | "traceRatio" | "exporter"> {
  /** Endpoint of the collector; undefined: there is an `exporter`. */
  readonly url: string | undefined;
  readonly environment: NonNullable<TelemetryOptions["environment"]>;
  readonly log: Logger;
}

export function openTraces(options: TracesOptions): Traces {
  const { url, log } = options;
  reportTroubles(log);
  const exporter =
    options.exporter ?? new OTLPTraceExporter({ timeoutMillis: EXPORT_TIMEOUT_MS, ...(url !== undefined && { url }) });
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: SPANS_QUEUED_MAX,
    scheduledDelayMillis: EXPORT_EVERY_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const shared = { ids: new ChosenIds(), allowance: new Allowance(), ratio: traceRatio(options) };
  // A resource belongs to a provider, so each service has one; the queue and the exporter are the process's.
  const tracerOf = ({ service, instance }: TracedService): Tracer => {
    const provider = new TracerProvider({
      resource: resourceFromAttributes({
        "service.name": service,
        "service.namespace": "tutti",
        "service.instance.id": instance,
      }),
      sampler: new AlwaysOnSampler(), // OtelTracer has decided
      idGenerator: shared.ids,
      spanLimits: { linkCountLimit: SPAN_LINKS_MAX },
      spanProcessors: [processor],
    });
    return new OtelTracer({ tracer: provider.getTracer("tutti"), ...shared });
  };
  return { tracer: tracerOf(options), tracerOf, close: () => processor.shutdown() };
}

function traceRatio({ environment, log, traceRatio: byDefault = 1 }: TracesOptions): number {
  const text = environment["TUTTI_TRACE_RATIO"];
  const ratio = text === undefined || text === "" ? byDefault : Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  log.warn({ TUTTI_TRACE_RATIO: text ?? ratio }, "is no share between 0 and 1: everything is traced");
  return 1;
}

function reportTroubles(log: Logger): void {
  let quietUntil = -Infinity;
  const report = (text: string): void => {
    const now = performance.now();
    if (now < quietUntil) return;
    quietUntil = now + TROUBLE_EVERY_MS;
    log.warn({ trouble: messageOf(text) }, "traces are not getting through");
  };
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

/** The exporter writes its errors as JSON, stack included. */
function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    return typeof message === "string" && message !== "" ? message : text;
  } catch {
    return text;
  }
}
