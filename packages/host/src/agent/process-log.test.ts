import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { ProcessLog } from "./process-log.ts";

let now = 0;
const at = (instant: number): Instant => instant as Instant;
const book = (): ProcessLog => new ProcessLog(() => at(++now));

test("only the last lines are kept, and what is missing is counted (T7)", () => {
  const log = book();
  for (let i = 1; i <= 5_000; i++) log.add("a", `line ${i}`);
  const { lines, left } = log.since("a", at(0));
  expect(lines.length + left).toBe(5_000);
  expect(lines.length).toBeLessThanOrEqual(2_000);
  expect(lines.at(-1)?.text).toBe("line 5000");
});

test("long lines are cut and bounded in sum (T7)", () => {
  const log = book();
  for (let i = 0; i < 1_000; i++) log.add("a", "x".repeat(100_000));
  const { lines } = log.since("a", at(0));
  expect(lines.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(1_000_000);
});

test("a log is asked for from a moment on, and of one process", () => {
  now = 100;
  const log = book();
  for (const text of ["one", "two", "three"]) log.add("a", text);
  log.add("b", "other");
  expect(log.since("a", at(102)).lines.map(({ text }) => text)).toEqual(["two", "three"]);
  expect(log.since("nobody", at(0))).toEqual({ lines: [], left: 0 });
});

test("seeds, passwords in URLs and tokens are not kept", () => {
  const log = book();
  log.add("a", "seed SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY at nats://me:hunter2@host:4222");
  const [line] = log.since("a", at(0)).lines;
  expect(line?.text).toBe("seed [redacted] at nats://[redacted]@host:4222");
});
