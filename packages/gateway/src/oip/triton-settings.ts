/**
 * Triton's settings of traces and logs. They can be read, and nothing can be changed by them: traces and log levels are
 * given to the processes when they start (TUTTI_LOG, OTEL_…).
 */
import { TuttiError } from "@tutti/protocol";
import type { Telemetry } from "@tutti/ports/telemetry";

export type Setting = string | number | boolean | readonly string[];
export type Settings = Readonly<Record<string, Setting>>;

/** Traces go to a collector, which Triton's mode "opentelemetry" says. */
export const traceSettings = ({ tracer }: Telemetry): Settings => ({
  ...{ trace_level: [tracer.enabled ? "TIMESTAMPS" : "OFF"], trace_mode: "opentelemetry" },
  ...{ trace_file: "", trace_count: "-1", log_frequency: "0" },
});

export function logSettings({ log: { level = "info" } }: Telemetry): Settings {
  const at = LEVELS.indexOf(level);
  return {
    ...{ log_file: "", log_format: "default", log_verbose_level: at === 0 ? 1 : 0 },
    ...{ log_info: at <= 1, log_warning: at <= 2, log_error: at <= 3 },
  };
}
const LEVELS = ["debug", "info", "warn", "error", "silent"];

/**
 * Answers a request for a change: what is so already, or left to the server (null), is accepted.
 *
 * @throws {TuttiError} INVALID_INPUT for anything else
 */
export function unchanged(current: Settings, wanted: Readonly<Record<string, unknown>>): Settings {
  for (const [name, value] of Object.entries(wanted)) {
    const now = Object.hasOwn(current, name) ? current[name] : undefined;
    if (now === undefined) throw invalid(`there is no setting "${name.slice(0, 80)}"`);
    if (![value].flat().every(isPlain)) throw invalid(`${name} must be a text, a number or a list of them`);
    if (value === null || textOf(value) === "" || textOf(value) === textOf(now)) continue;
    throw invalid(
      `${name} is ${JSON.stringify(now)} and can't be changed while the server runs: TUTTI_LOG and OTEL_EXPORTER_OTLP_ENDPOINT say it when it starts`,
    );
  }
  return current;
}

const isPlain = (value: unknown): boolean =>
  value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean";
/** Clients send texts for numbers, and a single text for a list of one. */
const textOf = (value: unknown): string => [value].flat().map(String).join();
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);

/** CUDA's shared memory is not served; clients give up all regions before they begin, whether or not they use any. */
export const noCudaMemory = (): TuttiError =>
  invalid("CUDA shared memory is not served: register system shared memory, or send the bytes");
