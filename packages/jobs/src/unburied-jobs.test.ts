import { TuttiError } from "@tutti/protocol";
import { expect, test } from "vitest";
import { UNBURIED_KNOWN_MAX, UnburiedJobs } from "./unburied-jobs.ts";

const error = new TuttiError("TUTTI_INVALID_INPUT", "x is short");
const job = (seq: number, submittedAtMs = 1) => ({ seq, submittedAtMs });

test("a job that failed is remembered until it has ended, and another one of its number is not it", () => {
  const jobs = new UnburiedJobs();
  jobs.note(job(7), { error, isTold: false });
  jobs.note(job(7), { error, isTold: true });
  expect([jobs.get(job(7)), jobs.get(job(8)), jobs.get(job(7, 2))]).toEqual([
    { error, isTold: true },
    undefined,
    undefined,
  ]);
  jobs.forget(job(7));
  expect([jobs.get(job(7)), jobs.size]).toEqual([undefined, 0]);
});

test("so many are remembered and no more: the one that was noted first is forgotten", () => {
  const jobs = new UnburiedJobs();
  for (let seq = 0; seq <= UNBURIED_KNOWN_MAX; seq++) jobs.note(job(seq), { error, isTold: true });
  expect([jobs.size, jobs.get(job(0)), jobs.get(job(1))]).toEqual([
    UNBURIED_KNOWN_MAX,
    undefined,
    { error, isTold: true },
  ]);
});
