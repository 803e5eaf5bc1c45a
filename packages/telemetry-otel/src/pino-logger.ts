import type { Fields, Logger } from "@tutti/ports/telemetry";
import { printable } from "@tutti/units";
import { type DestinationStream, type Logger as Pino, pino } from "pino";
import pretty from "pino-pretty";
import { redactFields, redactText } from "./redaction.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const isLogLevel = (text: string | undefined): text is LogLevel =>
  (LOG_LEVELS as readonly (string | undefined)[]).includes(text);

/** Bytes of lines that may wait for a slow reader. Further lines are dropped, since an actor must not block (T7). */
const BUFFER_BYTES_MAX = 4_194_304;

export interface LogOptions {
  readonly level: LogLevel;
  /** Fields of every line. */
  readonly base: Fields;
  /** Takes the lines; default: standard error, pretty on a terminal. */
  readonly destination?: { write(line: string): void };
}

export interface Log {
  readonly logger: Logger;
  /** Resolves when all logged lines are written. */
  flush(): Promise<void>;
}

export function openLog({ level, base, destination }: LogOptions): Log {
  const settings = {
    level,
    base: redactFields(base),
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  if (destination !== undefined) return { logger: wrap(pino(settings, destination)), flush: () => Promise.resolve() };
  if (process.stderr.isTTY) {
    // A stream in this process, not pino's worker transport: a person reads it, and no line is lost when the process
    // ends.
    const stream: DestinationStream = pretty({
      colorize: true,
      singleLine: true,
      ignore: "pid,service,instance",
      destination: 2,
      sync: true,
    });
    // Applications' words stand in lines: as JSON they are escaped, and here they would reach the terminal.
    return { logger: wrap(pino(settings, stream), printable), flush: () => Promise.resolve() };
  }
  const stream = pino.destination({ dest: 2, sync: false, minLength: 0, maxLength: BUFFER_BYTES_MAX });
  stream.on("error", () => undefined); // the log's reader is gone: serving goes on without it
  return { logger: wrap(pino(settings, stream)), flush: () => new Promise((done) => stream.flush(() => done())) };
}

/** @param show - applied to what is logged, once secrets are removed */
function wrap(log: Pino, show: (text: string) => string = (text) => text): Logger {
  const at = (level: "debug" | "info" | "warn" | "error") => (fields: Fields, text: string) => {
    if (log.isLevelEnabled(level)) log[level](redactFields(fields, show), show(redactText(text)));
  };
  return {
    level: log.level,
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => wrap(log.child(redactFields(fields, show)), show),
  };
}
