import { expect, test } from "vitest";
import { chartText, chartsOf } from "./charts.ts";
import { groupRefusals, shortCode } from "./explain.ts";
import { bytes, clockTime, duration, expectedEnd, figure, milliseconds, percent } from "./format.ts";
import type { ModelHistory } from "../src/history.ts";

test("numbers read as people write them, and nearly all is never shown as all", () => {
  expect([0, 0.123, 4, 12.34, 1234.5, null].map(figure)).toEqual(["0", "0.12", "4", "12.3", "1,235", "–"]);
  expect([0, 0.034, 0.5, 0.99, 0.99995, 1, null].map(percent)).toEqual([
    "0 %",
    "3.4 %",
    "50 %",
    "99 %",
    "99.99 %",
    "100 %",
    "–",
  ]);
  expect([0.42, 7.25, 42.4, 1_500, 61_000, null].map(milliseconds)).toEqual([
    "0.42 ms",
    "7.3 ms",
    "42 ms",
    "1.5 s",
    "61 s",
    "–",
  ]);
  expect([0, 999, 1_500, 4e9, null].map(bytes)).toEqual(["0 B", "999 B", "1.5 KB", "4.0 GB", "–"]);
  expect([5_000, 150_000, 8e6, 2e8].map(duration)).toEqual(["5 s", "2 min", "2 h", "2 d"]);
});

test("a queue ends at a time of day, in days, or not at this rate", () => {
  const at = Date.UTC(2026, 0, 1, 12);
  expect([0, null, 300_000].map((s) => expectedEnd(s, at))).toEqual(["–", "not at this rate", "in 3 d"]);
  expect(expectedEnd(600, at)).toBe(`in 10 min, ${clockTime(at + 600_000).slice(0, 5)}`);
});

test("a code reads as words", () => {
  expect(shortCode("TUTTI_DEADLINE_INFEASIBLE")).toBe("deadline infeasible");
});

test("refusals of one model and cause in a row are one line, the newest first", () => {
  const refusal = (at: number, model: string, code = "X") => ({ at, model, code, text: `text ${at}` });
  const groups = groupRefusals([
    refusal(1, "a"),
    refusal(2, "b"),
    refusal(3, "b"),
    refusal(4, "b", "Y"),
    refusal(5, "a"),
  ]);
  expect(groups.map(({ at, since, model, code, count }) => [at, since, model, code, count])).toEqual([
    [5, 5, "a", "X", 1],
    [4, 4, "b", "Y", 1],
    [3, 2, "b", "X", 2],
    [1, 1, "a", "X", 1],
  ]);
  expect(groups[2]!.text).toBe("text 3");
});

const history = (good: number, more: Partial<ModelHistory> = {}): ModelHistory => ({
  ...{ good: [good], goodShare: [0.5], queue: [3], batch: [6], target: [8], p99: [20], slo: 25, ...more },
});

test("all models are compared in shares of their targets; one alone stands in its own units beside them", () => {
  const models = new Map(Array.from({ length: 12 }, (_, i) => [`m${i}`, history(i)]));
  const colours = (name: string): string => `colour of ${name}`;
  const all = chartsOf({ models }, colours, undefined);
  expect(all.map(({ lines }) => lines.length)).toEqual([8, 8, 8, 8]);
  expect(all[0]!.lines[0]).toMatchObject({ label: "m11", colour: "colour of m11", values: [50] });
  expect(all[2]!.lines[0]!.values).toEqual([75]);
  expect(all[3]!.lines[0]!.values).toEqual([80]);
  const one = chartsOf({ models }, colours, "m3");
  expect(one[2]!.lines.map(({ label, values }) => [label, values])).toEqual([
    ["m3", [6]],
    ["target", [8]],
  ]);
  expect(
    chartsOf({ models: new Map([["x", history(1, { target: [null], p99: [null] })]]) }, colours, undefined)[2]!
      .lines[0]!.values,
  ).toEqual([null]);
});

test("a chart is said in words: what is now, and how far it went", () => {
  const line = (label: string, values: (number | null)[]) => ({ label, colour: "", isReference: false, values });
  const chart = { title: "Queue", unit: "requests", least: 4, mark: undefined };
  expect(chartText({ ...chart, lines: [line("a", [2, 7, 3, null]), line("b", [null])] })).toBe(
    "Queue in requests, now: a 3, between 2 and 7 so far; b unknown",
  );
  expect(chartText({ ...chart, lines: [] })).toBe("Queue in requests, now: nothing yet");
});
