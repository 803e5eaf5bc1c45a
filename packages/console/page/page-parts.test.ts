import { expect, test } from "vitest";
import type { FeedRefusal } from "../src/feed.ts";
import { beyondText, chartText, chartsOf, lonelyPoints, plotted } from "./charts.ts";
import { groupRefusals, matchingRefusals, shortCode } from "./explain.ts";
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
  expect([0, 0.031, -1_234, 0.42, 7.25, 42.4, 1_500, 61_000, null].map(milliseconds)).toEqual([
    "0 ms",
    "31 µs",
    "-1.2 s",
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

const refusal = (at: number, model: string, code = "X", more: Partial<FeedRefusal> = {}): FeedRefusal => ({
  ...{ at, model, code, text: `text ${at}`, app: "shop", id: `order-${at}`, trace: "" },
  ...more,
});

test("refusals are found by anything that is shown of them, and by the trace", () => {
  const refusals = [
    refusal(1, "mlp", "TUTTI_DEADLINE_INFEASIBLE"),
    refusal(2, "ocr", "TUTTI_OVERLOADED", { app: "Till", trace: "4bf92f35" }),
  ];
  const found = (text: string): number[] => matchingRefusals(refusals, text).map(({ at }) => at);
  expect([found(""), found(" ORDER-1 "), found("deadline inf"), found("ocr"), found("text")]).toEqual([
    ...[[1, 2], [1], [1], [2]],
    [1, 2],
  ]);
  expect([found("till"), found("4bf9"), found("nothing")]).toEqual([[2], [2], []]);
});

test("refusals of one model, application and cause in a row are one line, the newest first", () => {
  const groups = groupRefusals([
    refusal(1, "a"),
    refusal(2, "b"),
    refusal(3, "b"),
    refusal(4, "b", "Y"),
    refusal(5, "a"),
    refusal(6, "a", "X", { app: "till" }),
  ]);
  expect(groups.map(({ at, since, model, code, count }) => [at, since, model, code, count])).toEqual([
    [6, 6, "a", "X", 1],
    [5, 5, "a", "X", 1],
    [4, 4, "b", "Y", 1],
    [3, 2, "b", "X", 2],
    [1, 1, "a", "X", 1],
  ]);
  expect(groups[3]!.text).toBe("text 3");
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

test("a line ends where minutes have no data, crosses seconds without, and shows a value that stands alone", () => {
  const lineOf = (values: (number | null)[], at: number[]) =>
    plotted({ lines: [{ label: "a", colour: "", isReference: false, values }] }, at);
  expect(lineOf([1, null, null, 2], [10, 11, 12, 13])[1]).toEqual([1, undefined, undefined, 2]);
  const minutes = Array.from({ length: 8 }, (_, i) => 10 + i);
  expect(lineOf([1, null, null, null, null, null, null, 2], minutes)[1]).toEqual([1, ...Array(6).fill(null), 2]);
  // A page that slept has no points at all for the time.
  const slept = lineOf([1, 2, 3], [10, 11, 200]);
  expect(slept).toEqual([
    [10, 11, 12, 200],
    [1, 2, null, 3],
  ]);
  expect(lonelyPoints(slept[1]!)).toEqual([3]);
  expect(lonelyPoints([4, null, 5, undefined, 6, null, 7, 8])).toEqual([0]);
  expect(lineOf([null, 3], [1, 2])[1]).toEqual([null, 3]);
});

test("an axis of shares ends at twice the target, and the chart says how far a line went beyond", () => {
  const models = new Map([["a", history(1, { p99: [375], target: [1] })]]);
  const [inTime, , batch, p99] = chartsOf({ models }, () => "", undefined);
  expect([inTime!.most, batch!.most, p99!.most]).toEqual([100, 200, 200]);
  expect(plotted(p99!, [1])[1]).toEqual([200]);
  expect(beyondText(p99!)).toBe(", up to 1,500");
  expect(beyondText(inTime!)).toBe("");
  expect(chartText(p99!)).toContain("1,500");
});
