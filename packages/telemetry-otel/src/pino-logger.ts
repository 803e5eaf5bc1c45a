import type { Fields, Logger } from "@tutti/ports/telemetry";
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
    return { logger: wrap(pino(settings, stream)), flush: () => Promise.resolve() };
  }
  const stream = pino.destination({ dest: 2, sync: false, minLength: 0, maxLength: BUFFER_BYTES_MAX });
  stream.on("error", () => undefined); // the log's reader is gone: serving goes on without it
  return { logger: wrap(pino(settings, stream)), flush: () => new Promise((done) => stream.flush(() => done())) };
}

function wrap(log: Pino): Logger {
  return {
    debug: (fields, text) => {
      if (log.isLevelEnabled("debug")) log.debug(redactFields(fields), redactText(text));
    },
    info: (fields, text) => {
      if (log.isLevelEnabled("info")) log.info(redactFields(fields), redactText(text));
    },
    warn: (fields, text) => {
      if (log.isLevelEnabled("warn")) log.warn(redactFields(fields), redactText(text));
    },
    error: (fields, text) => log.error(redactFields(fields), redactText(text)),
    child: (fields) => wrap(log.child(redactFields(fields))),
  };
}
