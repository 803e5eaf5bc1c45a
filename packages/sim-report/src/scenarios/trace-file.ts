/**
 * Recorded arrivals as a file: the JSON lines of `tutti record`, or a table (CSV) from elsewhere.
 *
 *   TF1. Entries come out in order of time, counted from the first request, whatever the order of the lines.
 *   TF2. A malformed line fails the file, by its number: a trace with missing requests would be another workload.
 */
import { createReadStream } from "node:fs";
import type { TraceEntry } from "@tutti/simulator";
import { type Micros, micros } from "@tutti/units";
import { CommandError } from "@tutti/admin";

/** Name and version of the format. */
export const TRACE_FORMAT = "tutti-trace";
export const TRACE_VERSION = 1;

/** The first line of a recording. */
export interface TraceHeader {
  readonly format: typeof TRACE_FORMAT;
  readonly version: number;
  /** ISO 8601, UTC: when the recorder started to listen. */
  readonly startedAt: string;
  readonly cluster: string;
  /** The recorded models; absent: all. */
  readonly models?: readonly string[];
  readonly payloads: boolean;
}

/** One request. */
export interface TraceLine {
  /** Microseconds since the first request. */
  readonly t: number;
  readonly model: string;
  readonly app: string;
  /** The value of `Tutti-Slo`, or the time left until `Tutti-Deadline`; absent: the model's own SLO counts. */
  readonly sloUs?: number;
  /** Size of the payload. */
  readonly bytes: number;
  /** The payload in base64, with its content type; only in recordings with payloads. */
  readonly payload?: string;
  readonly contentType?: string;
}

/** A gap in the recording: `missed` requests that the file could not take, or a time without a connection. */
export interface GapLine {
  readonly t: number;
  readonly missed?: number;
  readonly awayUs?: number;
}

export interface Trace {
  /** Undefined for a table. */
  readonly header: TraceHeader | undefined;
  readonly entries: readonly TraceEntry[];
  /** Requests that the recorder counted as missed. */
  readonly missed: number;
  /** Time without a connection; its requests are unknown. */
  readonly away: Micros;
}

/** Requests that fit in memory as entries of some 60 bytes each. */
const ENTRIES_MAX = 20_000_000;
/** More than a payload of 8 MB in base64. */
const LINE_CHARS_MAX = 16_777_216;
/** Number of malformed lines named before the reader gives up. */
const COMPLAINTS_MAX = 5;

/** @throws {CommandError} naming the file, and the first malformed lines by their numbers */
export async function readTrace(path: string): Promise<TraceEntry[]> {
  return [...(await readTraceFile(path)).entries];
}

/** Reads the entries together with the recorder's own counts. @throws {CommandError} */
export async function readTraceFile(path: string): Promise<Trace> {
  const reading = new TraceReading(path);
  let number = 0;
  for await (const { text, isWhole } of linesOf(path)) {
    number++;
    if (text.trim() !== "") reading.line(number, text, isWhole);
  }
  return reading.end();
}

class TraceReading {
  readonly #path: string;
  readonly #entries: { at: Micros; model: string; app: string; slo: Micros | undefined }[] = [];
  readonly #complaints: string[] = [];
  /** Interned names: a trace has millions of entries, but few names. */
  readonly #names = new Map<string, string>();
  #parse: ((text: string) => void) | undefined;
  #header: TraceHeader | undefined;
  #missed = 0;
  #away = 0;
  #isSorted = true;

  constructor(path: string) {
    this.#path = path;
  }

  line(number: number, text: string, isWhole: boolean): void {
    try {
      if (this.#parse === undefined) this.#parse = this.#begin(text);
      else this.#parse(text);
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      const hint = isWhole ? "" : "; the recording was cut off here: remove this line to use what came before";
      this.#complaints.push(`line ${number}: ${error.message}${hint}`);
      // Without a valid first line, the format of the following lines is unknown.
      if (this.#parse === undefined || this.#complaints.length >= COMPLAINTS_MAX) this.#fail();
    }
  }

  end(): Trace {
    if (this.#complaints.length > 0) this.#fail();
    if (this.#entries.length === 0) throw new CommandError(`${this.#path} holds no requests`);
    if (!this.#isSorted) this.#entries.sort((a, b) => a.at - b.at);
    const first = this.#entries[0]!.at;
    if (first !== 0) for (const entry of this.#entries) entry.at = micros(entry.at - first);
    return { header: this.#header, entries: this.#entries, missed: this.#missed, away: micros(this.#away) };
  }

  #fail(): never {
    throw new CommandError(`${this.#path}: ${this.#complaints.join("; ")}`);
  }

  #begin(text: string): (text: string) => void {
    if (!text.startsWith("{")) return csvColumns(text, (line) => this.#add(line));
    this.#header = readHeader(text);
    return (line) => this.#jsonLine(line);
  }

  #jsonLine(text: string): void {
    const line = parseObject(text);
    const t = numberIn(line, "t", "microseconds since the first request");
    if (line["missed"] !== undefined) this.#missed += numberIn(line, "missed", "a number of requests");
    else if (line["awayUs"] !== undefined) this.#away += numberIn(line, "awayUs", "microseconds");
    else {
      this.#add({
        t,
        model: textIn(line, "model"),
        app: line["app"] === undefined ? "" : textIn(line, "app"),
        slo: line["sloUs"] === undefined ? undefined : numberIn(line, "sloUs", "microseconds"),
      });
    }
  }

  #add({ t, model, app, slo }: { t: number; model: string; app: string; slo: number | undefined }): void {
    if (this.#entries.length >= ENTRIES_MAX) throw new CommandError(`${this.#path} has over ${ENTRIES_MAX} requests`);
    const at = micros(Math.round(t));
    const last = this.#entries.at(-1);
    if (last !== undefined && last.at > at) this.#isSorted = false;
    this.#entries.push({
      at,
      model: this.#nameOf(model),
      app: this.#nameOf(app),
      slo: slo === undefined ? undefined : micros(Math.round(slo)),
    });
  }

  #nameOf(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    this.#names.set(name, name);
    return name;
  }
}

/** The error in one line. */
class LineError extends Error {
  override readonly name = "LineError";
}

function readHeader(text: string): TraceHeader {
  const header = parseObject(text);
  if (header["format"] !== TRACE_FORMAT)
    throw new LineError(`not the beginning of a recording, which says "format":"${TRACE_FORMAT}"`);
  const version = numberIn(header, "version", "a version");
  if (version !== TRACE_VERSION)
    throw new LineError(`version ${version} of a recording; this program reads version ${TRACE_VERSION}`);
  return header as unknown as TraceHeader;
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new LineError("not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new LineError("not a JSON object");
  return value as Record<string, unknown>;
}

function numberIn(line: Readonly<Record<string, unknown>>, name: string, what: string): number {
  const value = line[name];
  if (typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER) return value;
  throw new LineError(`"${name}" is ${shown(value)}, not ${what}`);
}

function textIn(line: Readonly<Record<string, unknown>>, name: string): string {
  const value = line[name];
  if (typeof value === "string" && value !== "") return value;
  throw new LineError(`"${name}" is ${shown(value)}, not a name`);
}

interface TableRow {
  readonly t: number;
  readonly model: string;
  readonly app: string;
  readonly slo: number | undefined;
}

const COLUMNS = ["t_ms", "model", "app", "slo_ms"];

/** Parses columns by their names in the first line, in any order: t_ms and model, optionally app and slo_ms. */
function csvColumns(text: string, add: (row: TableRow) => void): (text: string) => void {
  const names = cellsOf(text);
  const unknown = names.find((name) => !COLUMNS.includes(name));
  if (unknown !== undefined || !names.includes("t_ms") || !names.includes("model"))
    throw new LineError(
      `neither a recording nor a table: a table begins with the line t_ms,model or t_ms,model,app,slo_ms, not ${shown(text)}`,
    );
  const cell = (cells: readonly string[], name: string): string => cells[names.indexOf(name)] ?? "";
  return (line) => {
    const cells = cellsOf(line);
    if (cells.length !== names.length) throw new LineError(`${cells.length} cells instead of ${names.length}`);
    const slo = cell(cells, "slo_ms");
    const model = cell(cells, "model");
    if (model === "") throw new LineError("no model");
    add({
      t: 1000 * amountOf(cell(cells, "t_ms"), "t_ms"),
      model,
      app: cell(cells, "app"),
      slo: slo === "" ? undefined : 1000 * amountOf(slo, "slo_ms"),
    });
  };
}

/** Names and numbers contain no commas, so quotes are only removed. */
const cellsOf = (line: string): string[] =>
  line.split(",").map((cell) =>
    cell
      .trim()
      .replace(/^"(.*)"$/, "$1")
      .trim(),
  );

function amountOf(text: string, column: string): number {
  const amount = Number(text);
  if (text !== "" && amount >= 0 && amount <= Number.MAX_SAFE_INTEGER / 1000) return amount;
  throw new LineError(`${column} is ${shown(text)}, not a number of milliseconds`);
}

function shown(value: unknown): string {
  const text = value === undefined ? "missing" : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** Lines without their ends. `isWhole` is false for a last line without a line end. */
async function* linesOf(path: string): AsyncGenerator<{ readonly text: string; readonly isWhole: boolean }> {
  let rest = "";
  try {
    for await (const chunk of createReadStream(path, { encoding: "utf8", highWaterMark: 262_144 })) {
      const lines = (rest + String(chunk)).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > LINE_CHARS_MAX) throw new CommandError(`${path}: a line of over ${LINE_CHARS_MAX} characters`);
      for (const text of lines) yield { text, isWhole: true };
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new CommandError(`the trace ${path} can't be read: ${code === "ENOENT" ? "there is no such file" : code}`);
  }
  if (rest !== "") yield { text: rest, isWhole: false };
}
