/** Stored decision logs stay byte for byte the same until a decision is changed on purpose: see README.md. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decisionLines, readDecisions } from "@tutti/simulator";
import { expect, test } from "vitest";
import { SCENARIOS } from "./scenarios.ts";

const isWriting = process.env["TUTTI_GOLDEN"] === "write";
const fileOf = (name: string): string => join(import.meta.dirname, `${name}.jsonl`);

test.each(Object.keys(SCENARIOS))("every decision of %s is as it was (T6)", (name) => {
  const log = `${decisionLines(SCENARIOS[name]!).join("\n")}\n`;
  if (isWriting) writeFileSync(fileOf(name), log);
  const kept = readFileSync(fileOf(name), "utf8");
  if (log === kept) return;
  const [lines, keptLines] = [log.split("\n"), kept.split("\n")];
  const first = lines.findIndex((line, i) => line !== keptLines[i]);
  expect(lines.slice(first, first + 3), `from line ${first + 1} on`).toEqual(keptLines.slice(first, first + 3));
  expect(lines.length).toBe(keptLines.length);
});

test("each log kept belongs to a scenario", () => {
  const kept = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".jsonl"));
  expect(kept.toSorted()).toEqual(
    Object.keys(SCENARIOS)
      .map((name) => `${name}.jsonl`)
      .toSorted(),
  );
});

/** Starts in ms, accelerator and requests of each batch. */
const batches = (name: string): [number, number, number[]][] =>
  readDecisions(decisionLines(SCENARIOS[name]!)).decisions.flatMap((d) =>
    d.event === "dispatch" ? [[d.plan!.start / 1000, d.gpu, [...d.requests]] as [number, number, number[]]] : [],
  );

test("the log of paper-3.3 is docs/algorithms.md, A10.1: batches of four, staggered by 3 ms", () => {
  const expected = Array.from({ length: 8 }, (_, i) => [
    2.25 + 3 * i,
    i % 3,
    [1, 2, 3, 4].map((number) => 4 * i + number),
  ]);
  expect(batches("paper-3.3").slice(0, 8)).toEqual(expected);
});

test("the log of paper-3.3-gap is docs/algorithms.md, A10.2: the stagger comes back and nothing is dropped", () => {
  // R16 is the 13th request that arrives.
  const found = batches("paper-3.3-gap").slice(3, 7);
  expect(found.map(([start, gpu, [first]]) => [start, gpu, first! + 3])).toEqual([
    [13.5, 0, 16],
    [16.5, 1, 20],
    [19.5, 2, 24],
    [22.5, 0, 28],
  ]);
  expect(decisionLines(SCENARIOS["paper-3.3-gap"]!).filter((line) => line.includes('"refuse"'))).toEqual([]);
});
