import { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Parameters } from "./infer-head.ts";
import { type RequestTerms, readTerms, termsLeft } from "./request-terms.ts";

const terms = (parameters: Parameters, headers: Record<string, string> = {}): RequestTerms =>
  readTerms((name) => headers[name], parameters);
const priorityOf = (priority: number): number => terms({ priority }).priority!;

test("Triton's priorities keep their order: 1 is the most urgent, and all beyond 255 are the least", () => {
  expect([1, 2, 255, 256, 1_000, 2 ** 64].map(priorityOf)).toEqual([255, 254, 1, 0, 0, 0]);
  const level = fc.integer({ min: 1, max: 300 });
  fc.assert(
    fc.property(level, level, (a, b) => {
      if (a < b) expect(priorityOf(a)).toBeGreaterThanOrEqual(priorityOf(b));
      if (a < b && a <= 255) expect(priorityOf(a)).toBeGreaterThan(priorityOf(b));
    }),
  );
});

test("a priority of 0 says nothing, the parameter wins over the header, and what is no level is refused", () => {
  const header = { "tutti-priority": "7" };
  expect(terms({}).priority).toBeUndefined();
  expect(terms({ priority: 0 }).priority).toBeUndefined();
  expect(terms({ priority: 0 }, header).priority).toBe(7);
  expect(terms({ priority: 1 }, header).priority).toBe(255);
  for (const priority of [-1, 1.5, "2", true]) {
    expect(() => terms({ priority })).toThrow(TuttiError);
    expect(() => terms({ priority })).toThrow("1 is the most urgent");
  }
});

test("a sequence has an id, of which a number and a text are two, and none is 0 or empty", () => {
  const sequence = (parameters: Parameters) => terms(parameters).sequence;
  expect([sequence({}), sequence({ sequence_id: 0 }), sequence({ sequence_id: "" })]).toEqual(Array(3).fill(undefined));
  expect(sequence({ sequence_id: 5, sequence_start: true })).toEqual({ id: "5", isStart: true, isEnd: false });
  expect(sequence({ sequence_id: "5", sequence_end: true })).toEqual({ id: '"5"', isStart: false, isEnd: true });
  for (const id of [-1, 1.5, 2 ** 53, true, "x".repeat(257)])
    expect(() => sequence({ sequence_id: id })).toThrow("sequence_id is a whole number");
  expect(() => sequence({ sequence_end: true })).toThrow("need a sequence_id");
  expect(() => sequence({ sequence_id: 1, sequence_start: 1 })).toThrow("true or false");
});

test("costs come by parameter or header, and their first step is the SLO", () => {
  const both = [
    { after: 25_000, cost: 1 },
    { after: 100_000, cost: 3 },
  ];
  expect(terms({ costs: "25ms=1, 100ms=3" })).toMatchObject({ slo: 25_000, costs: both });
  expect(terms({}, { "tutti-costs": "25ms=1,100ms=3" })).toMatchObject({ slo: 25_000, costs: both });
  expect(terms({ slo: 25, costs: "25ms=1" }).slo).toBe(25_000);
  expect(terms({ timeout: 5_000, costs: "25ms=1" }).slo).toBe(25_000);
  expect(terms({}).costs).toBeUndefined();
  expect(() => terms({ slo: 30, costs: "25ms=1" })).toThrow("the first step of the costs is the SLO");
  expect(() => terms({ costs: "25ms=2, 30ms=1" })).toThrow("a later answer can't cost less");
  expect(() => terms({ costs: 7 })).toThrow("is no step");
});

test("reading a body takes from every step, and a step that is over is lost already", () => {
  const all = terms({ costs: "25ms=1, 100ms=3, 200ms=4" });
  expect(termsLeft(all, undefined, 5)).toMatchObject({
    slo: 20_000,
    costs: [
      { after: 20_000, cost: 1 },
      { after: 95_000, cost: 3 },
      { after: 195_000, cost: 4 },
    ],
  });
  expect(termsLeft(all, undefined, 30)).toMatchObject({
    slo: 70_000,
    costs: [
      { after: 70_000, cost: 2 },
      { after: 170_000, cost: 3 },
    ],
  });
  expect(() => termsLeft(all, undefined, 200)).toThrow("decoding alone took 200.0 ms of 200 ms");
  expect(termsLeft(terms({ slo: 25 }), undefined, 5)).toMatchObject({ slo: 20_000, costs: undefined });
});
