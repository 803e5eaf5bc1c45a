/**
 * Traces for the console, from a Jaeger's HTTP API. Its answers come from outside: they are read within bounds, and
 * parts of the wrong shape are left out (T8).
 */
import type { FeedTrace, TraceAnswer, TraceSpan } from "../index.ts";
import { TuttiError } from "@tutti/protocol";

export const TRACE_BYTES_MAX = 8_388_608;
export const TRACE_SPANS_MAX = 400;
/** Largest number of attributes of a span, and of events. */
const NOTES = 40;
const TEXT_LENGTH = 300;
const LISTED = 30;
const WITHIN_MS = 5_000;
/** Services that start the spans of requests: a gateway refuses some that no ingress sees. */
const SERVICES = ["tutti-ingress", "tutti-gateway"];
const TRACE_ID = /^[0-9a-f]{16,32}$/;

export class Traces {
  readonly #base: string;

  /** @param base - a Jaeger's address, such as http://127.0.0.1:16686 */
  constructor(base: string) {
    this.#base = base.replace(/\/+$/, "");
  }

  /** The newest first. @throws {TuttiError} UNAVAILABLE */
  async recent(): Promise<FeedTrace[]> {
    const asked = SERVICES.map((service) => this.#ask(`/api/traces?service=${service}&limit=${LISTED}&lookback=1h`));
    const traces = (await Promise.all(asked)).flatMap(readTraces);
    const byId = new Map(traces.map((trace) => [trace.id, trace]));
    return [...byId.values()]
      .map(summaryOf)
      .sort((a, b) => b.at - a.at)
      .slice(0, LISTED);
  }

  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT, UNAVAILABLE */
  async trace(id: string): Promise<TraceAnswer> {
    if (!TRACE_ID.test(id)) throw new TuttiError("TUTTI_INVALID_INPUT", "a trace id has 32 digits of base 16");
    const [trace] = readTraces(await this.#ask(`/api/traces/${id}`));
    if (trace === undefined) throw noTrace(id);
    return trace;
  }

  async #ask(path: string): Promise<unknown> {
    try {
      const response = await fetch(this.#base + path, { signal: AbortSignal.timeout(WITHIN_MS), redirect: "error" });
      if (response.status === 404) return {};
      if (!response.ok || response.body === null) throw new Error(`it answered ${response.status}`);
      return JSON.parse(await wholeText(response.body));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new TuttiError("TUTTI_UNAVAILABLE", `the Jaeger at ${this.#base} can't be asked: ${why}`, { cause });
    }
  }
}

const noTrace = (id: string): TuttiError =>
  new TuttiError(
    "TUTTI_NOT_FOUND",
    `there is no trace ${id}: it was not recorded, or is gone, or will come in a moment`,
  );

async function wholeText(body: ReadableStream<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > TRACE_BYTES_MAX) throw new Error(`it sends more than ${TRACE_BYTES_MAX} bytes (TRACE_BYTES_MAX)`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function summaryOf({ id, at, us, spans }: TraceAnswer): FeedTrace {
  const ids = new Set(spans.map((span) => span.id));
  const first = spans.find(({ parent }) => parent === null || !ids.has(parent)) ?? spans[0];
  const outcomes = spans.flatMap(({ notes }) =>
    notes.filter(([key]) => key === "tutti.outcome").map(([, value]) => value),
  );
  const isLate = spans.some(({ notes }) => notes.some(([key, value]) => key === "tutti.late" && value === "true"));
  const outcome = outcomes.find((one) => one !== "ok") ?? (isLate ? "late" : (outcomes[0] ?? ""));
  return { id, at, ms: us / 1_000, name: first?.name ?? "", outcome, spans: spans.length };
}

type Unknown = Readonly<Record<string, unknown>>;
const mapOf = (value: unknown): Unknown => (typeof value === "object" && value !== null ? (value as Unknown) : {});
const listOf = (value: unknown, most: number): readonly Unknown[] =>
  Array.isArray(value) ? value.slice(0, most).map(mapOf) : [];
const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value).slice(0, TEXT_LENGTH)
    : "";
const isTime = (value: unknown): value is number => typeof value === "number" && value >= 0 && value < 1e16;

/**
 * Spans without times or names are left out, and traces without spans. Times within a trace are µs from its beginning.
 */
export function readTraces(value: unknown): TraceAnswer[] {
  return listOf(mapOf(value)["data"], LISTED).flatMap((trace) => {
    const id = textOf(trace["traceID"]);
    const processes = mapOf(trace["processes"]);
    const raw = listOf(trace["spans"], TRACE_SPANS_MAX).filter(({ startTime, duration, spanID }) => {
      return isTime(startTime) && isTime(duration) && textOf(spanID) !== "";
    });
    if (!TRACE_ID.test(id) || raw.length === 0) return [];
    const begin = Math.min(...raw.map(({ startTime }) => startTime as number));
    const spans = raw.map((span) => spanOf(span, id, begin, processes)).sort((a, b) => a.at - b.at || b.us - a.us);
    return [{ id, at: begin / 1_000, us: Math.max(...spans.map(({ at, us }) => at + us)), spans }];
  });
}

function spanOf(span: Unknown, trace: string, begin: number, processes: Unknown): TraceSpan {
  const references = listOf(span["references"], NOTES);
  const parent = references.find(({ refType, traceID }) => refType === "CHILD_OF" && traceID === trace);
  const elsewhere = references.map(({ traceID }) => textOf(traceID)).filter((id) => id !== trace && TRACE_ID.test(id));
  return {
    id: textOf(span["spanID"]),
    parent: parent === undefined ? null : textOf(parent["spanID"]),
    name: textOf(span["operationName"]),
    service: textOf(mapOf(processes[textOf(span["processID"])])["serviceName"]),
    at: (span["startTime"] as number) - begin,
    us: span["duration"] as number,
    notes: listOf(span["tags"], NOTES).map(({ key, value }) => [textOf(key), textOf(value)] as const),
    events: listOf(span["logs"], NOTES)
      .filter(({ timestamp }) => isTime(timestamp))
      .map(({ timestamp, fields }) => ({
        at: Math.max(0, (timestamp as number) - begin),
        notes: listOf(fields, NOTES).map(({ key, value }) => [textOf(key), textOf(value)] as const),
      })),
    links: [...new Set(elsewhere)],
  };
}
