import type { SpanExporter } from "@opentelemetry/sdk-trace";
import { type Fields, type Telemetry, passingTracer } from "@tutti/ports/telemetry";
import type { TracedService, Traces } from "./otlp-traces.ts";
import { type LogLevel, type LogOptions, isLogLevel, openLog } from "./pino-logger.ts";

export interface TelemetryOptions {
  /** `service` of log lines, and `service.name` of traces that no role starts: `tutti-node`. */
  readonly service: string;
  /** `service.instance.id`: the actor's token. */
  readonly instance: string;
  /** Default `info`; TUTTI_LOG takes precedence. */
  readonly level?: LogLevel;
  /**
   * Endpoint of the traces (`http://127.0.0.1:4318`); default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
   * OTEL_EXPORTER_OTLP_ENDPOINT, else none.
   */
  readonly otlp?: string;
  /** Share of the traces beginning here that are recorded. Default 1; TUTTI_TRACE_RATIO takes precedence. */
  readonly traceRatio?: number;
  /** Added to every log line. */
  readonly fields?: Fields;
  /** Takes the log lines instead of standard error. */
  readonly destination?: NonNullable<LogOptions["destination"]>;
  /** Takes the spans instead of the OTLP exporter. */
  readonly exporter?: SpanExporter;
  /** Default: the process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

export interface OtelTelemetry extends Telemetry {
  /**
   * The same telemetry with spans of another service: each role of a process is one, so that a trace shows who did what
   * however roles share processes.
   */
  of(service: TracedService): Telemetry;
  /** Writes and sends the pending logs and spans, for CLOSE_MS at most; never rejects. */
  close(): Promise<void>;
}

/** Time limit of closing: a collector that doesn't answer must not hold a process that ends. */
export const CLOSE_MS = 2_000;

/**
 * Opens logs by pino and traces by OpenTelemetry. One per process: the SDK reports its errors through a global. Without
 * an endpoint for traces the SDK is not even imported: that takes as long as all other modules that a process loads.
 */
export async function createTelemetry(options: TelemetryOptions): Promise<OtelTelemetry> {
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
  const url = tracesUrl(options.otlp, environment);
  const traces: Traces =
    url === undefined && options.exporter === undefined
      ? { tracer: passingTracer, tracerOf: () => passingTracer, close: () => Promise.resolve() }
      : (await import("./otlp-traces.ts")).openTraces({ ...options, url, environment, log: log.logger });
  return {
    log: log.logger,
    tracer: traces.tracer,
    of: (service) => ({ log: log.logger, tracer: traces.tracerOf(service) }),
    close: () => {
      const sent = traces.close().catch((error: unknown) => {
        log.logger.warn({ trouble: String(error) }, "the last traces are lost");
      });
      return withinBound(sent.then(() => log.flush()));
    },
  };
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

async function withinBound(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((done) => (timer = setTimeout(done, CLOSE_MS)));
  await Promise.race([work, bound]);
  clearTimeout(timer);
}
