import { type ArrivalReports, type StreamArrivals } from "@tutti/protocol";
import { type Instant, micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ArrivalRecord, RECORD_LASTS, STREAMS_KEPT_MAX } from "./arrival-record.ts";

const SECOND = 1_000_000;
const at = (s: number): Instant => (1e15 + s * SECOND) as Instant;
const stream = (model: string, app = "shop"): StreamArrivals => ({ model, app, slo: micros(25_000) });
/** @param agos - per arrival its stream, and the µs before the report */
const told = (
  streams: readonly StreamArrivals[],
  agos: readonly (readonly [stream: number, ago: number])[],
): ArrivalReports => ({
  every: 1,
  left: 0,
  streams,
  rows: agos.flat(),
});

test("arrivals of the last ten minutes are kept in the order of time, whatever ingress told it first", () => {
  const record = new ArrivalRecord();
  record.hear({
    at: at(2),
    arrivals: told(
      [stream("mlp"), stream("ocr")],
      [
        [0, 900_000],
        [1, 300_000],
      ],
    ),
  });
  record.hear({ at: at(2.1), arrivals: told([stream("ocr"), stream("mlp")], [[1, 500_000]]) });
  const { streams, stream: numbers, at: times, left } = record.since(at(0));
  expect([...times]).toEqual([at(1.1), at(1.6), at(1.7)]);
  expect([...numbers].map((number) => streams[number]!.model)).toEqual(["mlp", "mlp", "ocr"]);
  expect(left).toBe(0);
  expect([...record.since(at(1.65)).at]).toEqual([at(1.7)]);
});

test("the record holds what a naive list would, up to its bounds in number and in time (RECORD-1)", () => {
  const report = fc.record({
    gapS: fc.integer({ min: 0, max: 120 }),
    agos: fc.array(fc.nat(SECOND), { maxLength: 40 }),
  });
  fc.assert(
    fc.property(fc.array(report, { maxLength: 30 }), (reports) => {
      const record = new ArrivalRecord(64);
      let now = at(0);
      let kept: number[] = [];
      for (const { gapS, agos } of reports) {
        now = (now + gapS * SECOND) as Instant;
        record.hear({
          at: now,
          arrivals: told(
            [stream("mlp")],
            agos.map((ago) => [0, ago] as const),
          ),
        });
        kept = [...kept, ...agos.map((ago) => now - ago)].slice(-64);
        // The record forgets in the order of reports: arrivals behind an older one wait for it.
        while (kept.length > 0 && kept[0]! < now - RECORD_LASTS) kept.shift();
        expect(record.size).toBe(kept.length);
        expect([...record.since(at(-1_000)).at]).toEqual(kept.toSorted((a, b) => a - b));
      }
    }),
  );
});

test("an arrival that stands for several is spread until the next one", () => {
  const record = new ArrivalRecord();
  const arrivals = {
    ...told(
      [stream("mlp")],
      [
        [0, 800_000],
        [0, 400_000],
      ],
    ),
    every: 4,
  };
  record.hear({ at: at(1), arrivals });
  expect([...record.since(at(0)).at].map((time) => (time - at(0)) / SECOND)).toEqual([
    0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
  ]);
});

test("models and applications beyond those that are told apart are counted, and what is none is not believed (T8)", () => {
  const record = new ArrivalRecord();
  for (let first = 0; first < STREAMS_KEPT_MAX + 256; first += 256) {
    const streams = Array.from({ length: 256 }, (_, i) => stream("mlp", `app-${first + i}`));
    record.hear({
      at: at(first / 256),
      arrivals: told(
        streams,
        streams.map((_, i) => [i, 10] as const),
      ),
    });
  }
  expect(record.size).toBe(STREAMS_KEPT_MAX);
  expect(record.left).toBe(256);
  expect(record.hear({ at: at(99), arrivals: { every: 1, left: 0, streams: [], rows: [0, 1] } })).toBe(false);
  expect(record.hear({ at: at(99) })).toBe(true);
});
