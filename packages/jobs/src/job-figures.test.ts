import { jobCounts } from "@tutti/protocol";
import { expect, test } from "vitest";
import { DEAD_ROWS_MAX, JobFigures } from "./job-figures.ts";

test("a report has each model's rate and backlog, and its dead letters by cause", () => {
  const figures = new JobFigures();
  figures.follow("mlp/2");
  for (let second = 0; second < 100; second++) {
    for (let i = 0; i < 5; i++) figures.done("mlp/2");
    figures.done("unknown");
    figures.tick();
  }
  figures.queued = new Map([["mlp/2", 70]]);
  figures.letters = new Map([["gone", new Map([["NOT_FOUND", 3]])]]);
  const report = figures.report();
  expect(report["rate:mlp/2"]).toBeCloseTo(5, 3);
  expect(report).toMatchObject({ "queued:mlp/2": 70, "dead:gone:NOT_FOUND": 3 });
  const read = jobCounts([{ role: "jobs", figures: { taken: 1, inFlight: 2, dead: 3, ...report } }]);
  expect([...read.keys()]).toEqual(["mlp/2", "gone"]);
});

test("so many rows of dead letters are reported and no more", () => {
  const figures = new JobFigures();
  figures.letters = new Map(
    Array.from({ length: DEAD_ROWS_MAX + 5 }, (_, i) => [`m-${i}`, new Map([["INTERNAL", 1]])]),
  );
  expect(Object.keys(figures.report()).length).toBe(DEAD_ROWS_MAX);
});
