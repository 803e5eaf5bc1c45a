import { type Instant, micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchRow, readArrivals, readBatches, readRefusals } from "./reports.ts";

const AT = 1e15 as Instant;

test("whatever comes, reading it gives a list or nothing, and never throws", () => {
  const anything = fc.oneof(
    fc.anything(),
    fc.record({
      left: fc.nat(),
      every: fc.nat(),
      streams: fc.array(fc.record({ model: fc.string(), app: fc.string(), slo: fc.integer() })),
      rows: fc.array(fc.oneof(fc.integer(), fc.double(), fc.anything())),
    }),
  );
  fc.assert(
    fc.property(anything, (value) => {
      const batches = readBatches(value, AT);
      for (const { startedAt, gpu } of batches?.batches ?? []) expect(Number.isSafeInteger(startedAt + gpu)).toBe(true);
      const told = readArrivals(value, AT);
      for (const { stream } of told?.arrivals ?? []) expect(told!.streams[stream]).toBeDefined();
      expect(["undefined", "object"]).toContain(typeof readRefusals(value));
    }),
  );
});

test("what is no batch, arrival or refusal is not taken for one", () => {
  const batch = { thread: 1, gpu: 2, size: 3, failed: 0 } as never;
  const row = batchRow(
    { ...(batch as object), firstAt: AT, grantedAt: AT, startedAt: AT, finishedAt: AT } as never,
    AT,
  );
  expect(readBatches({ left: 0, rows: row }, AT)?.batches).toHaveLength(1);
  for (const rows of [
    row.slice(1),
    row.with(1, 1e9),
    row.with(2, 0),
    row.with(3, 4),
    row.with(4, -1),
    row.with(5, 1e12),
  ])
    expect(readBatches({ left: 0, rows }, AT)).toBeUndefined();
  const stream = { model: "mlp", app: "shop", slo: micros(1_000) };
  expect(readArrivals({ every: 1, left: 0, streams: [stream], rows: [0, 5] }, AT)?.arrivals).toHaveLength(1);
  expect(readArrivals({ every: 1, left: 0, streams: [stream], rows: [1, 5] }, AT)).toBeUndefined();
  expect(readArrivals({ every: 0, left: 0, streams: [stream], rows: [0, 5] }, AT)).toBeUndefined();
  expect(readArrivals({ every: 1, left: 0, streams: [{ ...stream, app: "a.b" }], rows: [] }, AT)).toBeUndefined();
  const ofVersion = { every: 1, left: 0, streams: [{ ...stream, model: "mlp/2" }], rows: [0, 5] };
  expect(readArrivals(ofVersion, AT)?.arrivals).toHaveLength(1);
  const refusal = { at: 5, model: "mlp", code: "TUTTI_OVERLOADED", text: "busy" };
  expect(readRefusals([refusal])).toEqual([refusal]);
  for (const model of ["", "mlp/2"]) expect(readRefusals([{ ...refusal, model }])).toHaveLength(1);
  expect(readRefusals([{ ...refusal, model: "mlp/2/3" }])).toBeUndefined();
  expect(readRefusals([{ ...refusal, code: "toString" }])).toBeUndefined();
  expect(readRefusals([{ ...refusal, text: "x".repeat(241) }])).toBeUndefined();
  expect(readRefusals([{ ...refusal, code: "TUTTI_OF_A_NEWER_RELEASE" }, refusal])).toEqual([refusal]);
});
