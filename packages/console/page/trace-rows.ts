/** A trace's spans as rows of a waterfall. Pure. */
import type { TraceAnswer, TraceNote, TraceSpan } from "../src/feed.ts";
import { milliseconds } from "./format.ts";

export interface TraceRow {
  readonly span: TraceSpan;
  readonly depth: number;
  /** Start, as a share of the trace's length: 0 … 1. */
  readonly from: number;
  readonly length: number;
}

/** Puts each span below its parent, in the order of their starts. A span whose parent is missing is a root. */
export function traceRows({ spans, us }: TraceAnswer): TraceRow[] {
  const ids = new Set(spans.map(({ id }) => id));
  const below = new Map<string | null, TraceSpan[]>();
  for (const span of spans) {
    const parent = span.parent !== null && ids.has(span.parent) && span.parent !== span.id ? span.parent : null;
    below.set(parent, [...(below.get(parent) ?? []), span]);
  }
  const rows: TraceRow[] = [];
  const seen = new Set<string>();
  const whole = Math.max(1, us);
  const add = (span: TraceSpan, depth: number): void => {
    if (seen.has(span.id)) return;
    seen.add(span.id);
    rows.push({ span, depth, from: span.at / whole, length: span.us / whole });
    for (const child of below.get(span.id) ?? []) add(child, depth + 1);
  };
  for (const span of below.get(null) ?? []) add(span, 0);
  // A cycle of parents has no root: its spans are added here, so that none is left out.
  for (const span of spans) add(span, 0);
  return rows;
}

/** Sorts notes by relevance: the system's own before those of libraries. */
export const notesOf = (notes: readonly TraceNote[]): TraceNote[] =>
  notes
    .filter(([key, value]) => value !== "" && !HIDDEN.has(key))
    .toSorted(([a], [b]) => Number(b.startsWith("tutti.")) - Number(a.startsWith("tutti.")));

const HIDDEN = new Set(["otel.scope.name", "otel.scope.version", "internal.span.format", "span.kind"]);

/** Formats `tutti.time_left_us` 1499948 as "time left" 1.5 s; a time since the epoch is no duration, and stays. */
export function shownNote([key, value]: TraceNote): readonly [label: string, text: string] {
  const name = key.replace(/^tutti\./, "");
  const us = name.endsWith("_us") && value !== "" ? Number(value) : NaN;
  const label = (Number.isFinite(us) ? name.slice(0, -"_us".length) : name).replaceAll("_", " ");
  return [label === "slo" ? "SLO" : label, Number.isFinite(us) ? milliseconds(us / 1_000) : value];
}

/** The service that wrote each span; undefined where its parent has the same one. */
export function writers(rows: readonly TraceRow[]): readonly (string | undefined)[] {
  const services = new Map(rows.map(({ span }) => [span.id, span.service]));
  return rows.map(({ span: { parent, service } }) =>
    parent !== null && services.get(parent) === service ? undefined : serviceName(service),
  );
}

/** Formats an event. `event` holds its name; the other notes are its reasons. */
export function eventText(notes: readonly TraceNote[]): string {
  const name = notes.find(([key]) => key === "event")?.[1] ?? "event";
  const rest = notes.filter(([key]) => key !== "event").map((note) => shownNote(note).join(" "));
  return rest.length === 0 ? name : `${name}: ${rest.join(", ")}`;
}

/** Whether something did not go as planned (docs/observability.md). */
export const isTrouble = (notes: readonly TraceNote[]): boolean =>
  notes.some(([key, value]) => key === "event" && value !== "accepted");

export const serviceName = (service: string): string => service.replace(/^tutti-/, "");
