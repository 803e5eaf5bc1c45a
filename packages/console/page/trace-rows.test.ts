import fc from "fast-check";
import { expect, test } from "vitest";
import type { TraceSpan } from "../src/feed.ts";
import { eventText, notesOf, shownNote, traceRows, writers } from "./trace-rows.ts";

const span = (id: string, parent: string | null, at: number, us: number): TraceSpan => {
  return { id, parent, name: id, service: "tutti-ingress", at, us, notes: [], events: [], links: [] };
};

test("each span stands below its parent, at its place in the trace's time", () => {
  const spans = [
    span("request", null, 0, 1_000),
    span("wait", "request", 100, 400),
    span("run", "request", 600, 200),
    span("inner", "wait", 150, 50),
  ];
  const rows = traceRows({ id: "t", at: 0, us: 1_000, spans });
  expect(rows.map(({ span: { id }, depth, from, length }) => [id, depth, from, length])).toEqual([
    ["request", 0, 0, 1],
    ["wait", 1, 0.1, 0.4],
    ["inner", 2, 0.15, 0.05],
    ["run", 1, 0.6, 0.2],
  ]);
});

test("whatever parents the spans name, rings and strangers too, each has one row", () => {
  const ids = ["a", "b", "c", "d", "e"];
  const any = fc.array(fc.option(fc.constantFrom(...ids, "stranger"), { nil: null }), { minLength: 5, maxLength: 5 });
  fc.assert(
    fc.property(any, (parents) => {
      const spans = ids.map((id, i) => span(id, parents[i]!, 10 * i, 10));
      const rows = traceRows({ id: "t", at: 0, us: 50, spans });
      expect(rows.map(({ span: { id } }) => id).toSorted()).toEqual(ids);
    }),
  );
});

test("our own notes come first, those of libraries are left out, and events are read as sentences", () => {
  expect(
    notesOf([
      ["otel.scope.name", "x"],
      ["host", "h"],
      ["tutti.model", "mlp"],
      ["tutti.app", ""],
    ]),
  ).toEqual([
    ["tutti.model", "mlp"],
    ["host", "h"],
  ]);
  expect(
    eventText([
      ["event", "refused"],
      ["reason", "busy"],
    ]),
  ).toBe("refused: reason busy");
  expect(eventText([["event", "accepted"]])).toBe("accepted");
});

test("lengths of time are read as such, and what has another unit or none stays as it is", () => {
  expect(shownNote(["tutti.time_left_us", "1499948"])).toEqual(["time left", "1.5 s"]);
  expect(shownNote(["tutti.slo_us", "25000"])).toEqual(["SLO", "25 ms"]);
  expect(shownNote(["tutti.pull_us", ""])).toEqual(["pull us", ""]);
  expect(shownNote(["tutti.batch_size", "16"])).toEqual(["batch size", "16"]);
  expect(shownNote(["tutti.granted_at", "1700000000000000"])).toEqual(["granted at", "1700000000000000"]);
  expect(shownNote(["messaging.system", "nats"])).toEqual(["messaging.system", "nats"]);
  const accepted = [
    ["event", "accepted"] as const,
    ["tutti.bytes", "8"] as const,
    ["tutti.slo_us", "1500000"] as const,
  ];
  expect(eventText(accepted)).toBe("accepted: bytes 8, SLO 1.5 s");
});

test("a span says who wrote it where its parent was written by somebody else", () => {
  const spans = [span("a", null, 0, 9), { ...span("b", "a", 1, 5), service: "tutti-executor" }, span("c", "b", 2, 2)];
  spans.push({ ...span("d", "b", 3, 1), service: "tutti-executor" });
  expect(writers(traceRows({ id: "t", at: 0, us: 9, spans }))).toEqual(["ingress", "executor", "ingress", undefined]);
});
