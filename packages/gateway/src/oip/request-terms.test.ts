import { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Parameters } from "./infer-head.ts";
import { type RequestTerms, readTerms } from "./request-terms.ts";

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
