import { expect, test } from "vitest";
import { jobCounts, jobFigure, jobsEndInS } from "./job-figures.ts";

test("rates of runners add up; backlogs and letters are the queue's own, and are counted once", () => {
  const report = (rate: number, queued: number) => ({
    role: "jobs" as const,
    figures: {
      done: 7,
      dead: 3,
      [jobFigure("rate", "mlp/2")]: rate,
      [jobFigure("queued", "mlp/2")]: queued,
      [jobFigure("dead", "gone", "NOT_FOUND")]: 2,
    },
  });
  const others = { role: "ingress" as const, figures: { [jobFigure("rate", "mlp/2")]: 99 } };
  expect(jobCounts([report(2, 40), report(3, 38), others])).toEqual(
    new Map([
      ["mlp/2", { rate: 5, queued: 40, dead: new Map() }],
      ["gone", { rate: 0, queued: 0, dead: new Map([["TUTTI_NOT_FOUND", 2]]) }],
    ]),
  );
});

test("a queue ends when its jobs are done at this rate, and one that stands still at no time", () => {
  expect([jobsEndInS(0, 0), jobsEndInS(10, 4), jobsEndInS(10, 0.001)]).toEqual([0, 3, null]);
});
