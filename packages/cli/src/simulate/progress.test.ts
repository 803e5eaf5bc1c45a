import { expect, test } from "vitest";
import { Progress } from "./progress.ts";

function terminal(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, columns: 60, written, write: (text: string) => written.push(text) };
}

test("the bar says how much is done and estimates the rest from what it took", () => {
  const stream = terminal(true);
  let now = 0;
  const progress = new Progress(stream, () => now);
  now = 10_000;
  progress.update({ done: 1, total: 4, note: "seed 1" });
  expect(stream.written.at(-1)).toBe(`\r\x1b[2K${"█".repeat(6)}${"░".repeat(18)} 1/4, about 30 s left  seed 1`);
  now = 400_000;
  progress.update({ done: 2, total: 4, note: "a note that is longer than the terminal is wide" });
  expect(stream.written.at(-1)).toContain("about 7 min left");
  expect(stream.written.at(-1)!.replace("\r\x1b[2K", "").length).toBeLessThan(60);
  progress.end();
  expect(stream.written.at(-1)).toBe("\r\x1b[2K");
});

test("the bar is drawn at most ten times a second, but for the end", () => {
  const stream = terminal(true);
  const progress = new Progress(stream, () => 1000);
  for (let done = 1; done <= 50; done++) progress.update({ done, total: 50, note: "" });
  expect(stream.written.length).toBe(2);
});

test("where stderr is no terminal, only lines are written", () => {
  const stream = terminal(false);
  const progress = new Progress(stream, () => 0);
  progress.update({ done: 1, total: 2, note: "" });
  progress.line("figure 2");
  progress.end();
  expect(stream.written).toEqual(["figure 2\n"]);
});
