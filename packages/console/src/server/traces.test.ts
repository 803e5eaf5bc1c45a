import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TRACE_BYTES_MAX, TRACE_SPANS_MAX, Traces, readTraces } from "./traces.ts";

const ID = "0af7651916cd43dd8448eb211c80319c";
const BATCH = "b".repeat(32);
const tag = (key: string, value: unknown) => ({ key, type: "string", value });
const raw = (spanID: string, more: object = {}) => {
  return {
    traceID: ID,
    spanID,
    operationName: `span ${spanID}`,
    startTime: 5_000_000,
    duration: 900,
    processID: "p1",
    ...more,
  };
};
const TRACE = {
  traceID: ID,
  processes: { p1: { serviceName: "tutti-ingress" } },
  spans: [
    raw("a", { duration: 2_000, tags: [tag("tutti.outcome", "TUTTI_OVERLOADED"), tag("tutti.late", false)] }),
    raw("b", {
      startTime: 5_000_500,
      references: [
        { refType: "CHILD_OF", traceID: ID, spanID: "a" },
        { refType: "FOLLOWS_FROM", traceID: BATCH, spanID: "z" },
      ],
      logs: [{ timestamp: 5_000_700, fields: [tag("event", "refused"), tag("reason", "busy")] }],
    }),
  ],
};

let server: Server;
let traces: Traces;
let answer: { status: number; body: string };
const asked: string[] = [];
beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.writeHead(answer.status).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  traces = new Traces(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});
afterAll(() => server.close());
const answers = (value: unknown, status = 200): void => void (answer = { status, body: JSON.stringify(value) });

test("a trace has its spans with parents, times from its beginning, notes, events and links to other traces", async () => {
  answers({ data: [TRACE] });
  const trace = await traces.trace(ID);
  expect(trace).toMatchObject({ id: ID, at: 5_000, us: 2_000 });
  expect(trace.spans.map(({ id, parent, at, us, service }) => [id, parent, at, us, service])).toEqual([
    ["a", null, 0, 2_000, "tutti-ingress"],
    ["b", "a", 500, 900, "tutti-ingress"],
  ]);
  expect(trace.spans[1]).toMatchObject({
    links: [BATCH],
    events: [
      {
        at: 700,
        notes: [
          ["event", "refused"],
          ["reason", "busy"],
        ],
      },
    ],
  });
  expect(asked.at(-1)).toBe(`/api/traces/${ID}`);
});

test("the list says of each trace what came of it", async () => {
  answers({
    data: [
      TRACE,
      { ...TRACE, traceID: BATCH, spans: [raw("c", { startTime: 9_000_000, tags: [tag("tutti.late", "true")] })] },
    ],
  });
  asked.length = 0;
  expect((await traces.recent()).map(({ id, name, outcome, ms, spans }) => [id, name, outcome, ms, spans])).toEqual([
    [BATCH, "span c", "late", 0.9, 1],
    [ID, "span a", "TUTTI_OVERLOADED", 2, 2],
  ]);
  // A trace that both services have a part in is one row; a request that only its gateway saw is there too.
  expect(asked.map((path) => new URL(path, "http://jaeger").searchParams.get("service")).sort()).toEqual([
    "tutti-gateway",
    "tutti-ingress",
  ]);
});

test("an id that is none never reaches the Jaeger, and one that it doesn't know is said so", async () => {
  const before = asked.length;
  for (const id of ["", "../../etc", "0AF7", `${ID}?x`])
    await expect(traces.trace(id)).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(asked.length).toBe(before);
  answers({ data: [] });
  await expect(traces.trace(ID)).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
  answers({}, 404);
  await expect(traces.trace(ID)).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
});

test("a Jaeger that fails, sends no JSON, or sends without end is unavailable", async () => {
  answers({}, 500);
  await expect(traces.recent()).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  answer = { status: 200, body: "<html>" };
  await expect(traces.recent()).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  answer = { status: 200, body: `"${"x".repeat(TRACE_BYTES_MAX)}"` };
  await expect(traces.recent()).rejects.toThrow(/TRACE_BYTES_MAX/);
});

test("whatever it sends, reading gives traces of bounded size and never throws (T8)", () => {
  const many = { data: [{ ...TRACE, spans: Array.from({ length: TRACE_SPANS_MAX + 50 }, (_, i) => raw(`s${i}`)) }] };
  expect(readTraces(many)[0]!.spans).toHaveLength(TRACE_SPANS_MAX);
  const odd = fc.record({
    traceID: fc.constantFrom(ID, "x", 7, null),
    processes: fc.anything(),
    spans: fc.array(
      fc.oneof(
        fc.constant(raw("a")),
        fc.anything(),
        fc.constant(raw("b", { tags: [null, 7], logs: "x", references: [{}] })),
      ),
    ),
  });
  fc.assert(
    fc.property(fc.oneof(fc.anything(), fc.record({ data: fc.array(odd) })), (value) => {
      for (const { spans, us } of readTraces(value)) {
        expect(spans.length).toBeGreaterThan(0);
        expect(Number.isFinite(us)).toBe(true);
      }
    }),
  );
});
