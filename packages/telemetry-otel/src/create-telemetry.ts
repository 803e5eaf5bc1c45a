import { DiagLogLevel, diag } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, RandomIdGenerator, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { type Fields, type Logger, type Telemetry, type Tracer, passingTracer } from "@tutti/telemetry";
import { OtelTracer, headSampler } from "./otel-tracer.ts";
import { type LogLevel, type LogOptions, isLogLevel, openLog } from "./pino-logger.ts";

export interface TelemetryOptions {
  /** `service.name` of traces, `service` of log lines: `tutti-ingress`. */
  readonly service: string;
  /** `service.instance.id`: the actor's token. */
  readonly instance: string;
  /** Unless TUTTI_LOG says otherwise; default `info`. */
  readonly level?: LogLevel;
  /** Where traces go (`http://127.0.0.1:4318`); default: what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT says, else nowhere. */
  readonly otlp?: string;
  /** The share of traces that are recorded, of those that begin here: unless TUTTI_TRACE_RATIO says otherwise; default 1. */
  readonly traceRatio?: number;
  /** Also in every log line. */
  readonly fields?: Fields;
  /** Takes the log lines instead of standard error. */
  readonly destination?: NonNullable<LogOptions["destination"]>;
  /** Takes the spans instead of the OTLP exporter. */
  readonly exporter?: SpanExporter;
  /** Default: the process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

export interface OtelTelemetry extends Telemetry {
  /** Writes and sends what is left, for CLOSE_MS at most; never rejects. */
  close(): Promise<void>;
}

/** A collector that doesn't answer must not hold a process that ends. */
export const CLOSE_MS = 2_000;
/** One for each request of the largest batch; the SDK's default of 128 would lose the others. */
const SPAN_LINKS_MAX = 1_024;
const SPANS_QUEUED_MAX = 8_192;
const EXPORT_EVERY_MS = 1_000;
const EXPORT_TIMEOUT_MS = 5_000;
/** Troubles of the exporter come with every batch of spans; a line a minute says as much. */
const TROUBLE_EVERY_MS = 60_000;

/** Logs by pino, traces by OpenTelemetry. One per process: the troubles of the SDK are reported through a global of its own. */
export function createTelemetry(options: TelemetryOptions): OtelTelemetry {
  const environment = options.environment ?? process.env;
  const asked = environment["TUTTI_LOG"];
  const log = openLog({
    level: isLogLevel(asked) ? asked : (options.level ?? "info"),
    base: { service: options.service, instance: options.instance, pid: process.pid, ...options.fields },
    ...(options.destination && { destination: options.destination }),
  });
  if (asked !== undefined && asked !== "" && !isLogLevel(asked)) {
    log.logger.warn({ TUTTI_LOG: asked }, "is no log level: debug, info, warn, error or silent");
  }
  const traces = openTraces(options, environment, log.logger);
  return {
    log: log.logger,
    tracer: traces.tracer,
    close: () => {
      const sent = traces.close().catch((error: unknown) => {
        log.logger.warn({ trouble: String(error) }, "the last traces are lost");
      });
      return withinBound(sent.then(() => log.flush()));
    },
  };
}

interface Traces {
  readonly tracer: Tracer;
  close(): Promise<void>;
}

function openTraces(
  options: TelemetryOptions,
  environment: NonNullable<TelemetryOptions["environment"]>,
  log: Logger,
): Traces {
  const url = tracesUrl(options.otlp, environment);
  if (url === undefined && options.exporter === undefined) {
    return { tracer: passingTracer, close: () => Promise.resolve() };
  }
  reportTroubles(log);
  const exporter =
    options.exporter ?? new OTLPTraceExporter({ timeoutMillis: EXPORT_TIMEOUT_MS, ...(url !== undefined && { url }) });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": options.service,
      "service.namespace": "tutti",
      "service.instance.id": options.instance,
    }),
    sampler: headSampler(traceRatio(options, environment, log)),
    idGenerator: new RandomIdGenerator(),
    spanLimits: { linkCountLimit: SPAN_LINKS_MAX },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: SPANS_QUEUED_MAX,
        scheduledDelayMillis: EXPORT_EVERY_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  return { tracer: new OtelTracer(provider.getTracer("tutti")), close: () => provider.shutdown() };
}

function tracesUrl(
  option: string | undefined,
  environment: NonNullable<TelemetryOptions["environment"]>,
): string | undefined {
  const below = (endpoint: string): string => `${endpoint.replace(/\/+$/, "")}/v1/traces`;
  if (option !== undefined && option !== "") return below(option);
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: exact, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = environment;
  if (exact !== undefined && exact !== "") return exact;
  return endpoint === undefined || endpoint === "" ? undefined : below(endpoint);
}

function traceRatio(
  options: TelemetryOptions,
  environment: NonNullable<TelemetryOptions["environment"]>,
  log: Logger,
): number {
  const text = environment["TUTTI_TRACE_RATIO"];
  const ratio = text === undefined || text === "" ? (options.traceRatio ?? 1) : Number(text);
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
    log.warn({ trouble: text }, "traces are not getting through");
  };
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

async function withinBound(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((done) => (timer = setTimeout(done, CLOSE_MS)));
  await Promise.race([work, bound]);
  clearTimeout(timer);
}
