import type { Instant } from "@tutti/units";
import type { Fields, Logger, Span, SpanContext, SpanOptions, Telemetry, Tracer } from "./telemetry.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface RecordedLog {
  readonly level: LogLevel;
  /** Fields, including those of the logger's parents. */
  readonly fields: Fields;
  readonly text: string;
}
export interface RecordedSpan {
  readonly name: string;
  readonly options: SpanOptions;
  readonly context: SpanContext;
  /** Attributes, including those that were set later. */
  readonly attributes: Fields;
  readonly events: readonly { readonly name: string; readonly at: Instant; readonly attributes: Fields }[];
  /** Undefined while it runs. */
  readonly endedAt: Instant | undefined;
  readonly error: string | undefined;
  /** True if an exporter would have it: it was sampled at its head, or kept since. */
  readonly isRecorded: boolean;
}

export interface RecordingOptions {
  /** Most logs, and most spans, that are kept; the oldest make room. */
  readonly recordsMax?: number;
  /** True if spans without a parent are sampled; the others are sampled as their parent is. */
  readonly sampled?: boolean;
}

/** Records everything, for tests. Ids count up, so that equal runs record equal things. */
export class RecordingTelemetry implements Telemetry {
  readonly logs: RecordedLog[] = [];
  readonly spans: RecordedSpan[] = [];
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly #recordsMax: number;
  readonly #sampled: boolean;
  #ids = 0;

  constructor({ recordsMax = 100_000, sampled = true }: RecordingOptions = {}) {
    this.#recordsMax = recordsMax;
    this.#sampled = sampled;
    this.log = this.#logger({});
    this.tracer = { enabled: true, start: (name, options) => this.#start(name, options) };
  }

  /** Texts of one level, for assertions. */
  texts(level: LogLevel): string[] {
    return this.logs.filter((log) => log.level === level).map(({ text }) => text);
  }
  spansNamed(name: string): RecordedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  #logger(above: Fields): Logger {
    const at = (level: LogLevel) => (fields: Fields, text: string) =>
      this.#keep(this.logs, { level, fields: { ...above, ...fields }, text });
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => this.#logger({ ...above, ...fields }),
    };
  }

  #start(name: string, options: SpanOptions): Span {
    const id = (++this.#ids).toString(16);
    const { parent } = options;
    const context: SpanContext = {
      traceId: parent?.traceId ?? id.padStart(32, "0"),
      spanId: id.padStart(16, "0"),
      sampled: parent?.sampled ?? this.#sampled,
    };
    const events: { name: string; at: Instant; attributes: Fields }[] = [];
    const span = {
      name,
      options,
      context,
      attributes: { ...options.attributes },
      events,
      endedAt: undefined as Instant | undefined,
      error: undefined as string | undefined,
      get isRecorded(): boolean {
        return span.context.sampled;
      },
    };
    this.#keep(this.spans, span);
    return {
      get context(): SpanContext {
        return span.context;
      },
      keep: () => void (span.context = { ...span.context, sampled: true }),
      set: (attributes) => void Object.assign(span.attributes, attributes),
      event: (event, at, attributes = {}) => void events.push({ name: event, at, attributes }),
      end: (at, error) => void ([span.endedAt, span.error] = [at, error]),
    };
  }

  #keep<Entry>(entries: Entry[], entry: Entry): void {
    entries.push(entry);
    if (entries.length > this.#recordsMax) entries.shift();
  }
}
