import { type ErrorCode, TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FAILED_TRIES_MAX, JOB_TRIES_MAX, fateOf } from "./job-fate.ts";

const refused = (code: ErrorCode, retryable?: boolean): TuttiError =>
  new TuttiError(code, "no", retryable === undefined ? {} : { retryable });
const HOUR_MS = 3_600_000;

test("a job that never ran is tried as long as its deadline allows", () => {
  for (const code of ["TUTTI_OVERLOADED", "TUTTI_NOT_READY", "TUTTI_QUOTA_EXCEEDED"] as const)
    expect(fateOf(refused(code), { tries: 100_000, leftMs: HOUR_MS })).toEqual({ kind: "again", afterMs: 60_000 });
});

test("a job whose executors die is tried so many times and no more", () => {
  const lost = refused("TUTTI_UNAVAILABLE");
  expect(fateOf(lost, { tries: JOB_TRIES_MAX - 1, leftMs: HOUR_MS }).kind).toBe("again");
  expect(fateOf(lost, { tries: JOB_TRIES_MAX, leftMs: HOUR_MS })).toEqual({ kind: "dead" });
});

test("a model that nobody knows, or that fails, is tried a few times; a bad input is not", () => {
  for (const code of ["TUTTI_NOT_FOUND", "TUTTI_INTERNAL"] as const) {
    expect(fateOf(refused(code), { tries: FAILED_TRIES_MAX - 1, leftMs: HOUR_MS }).kind).toBe("again");
    expect(fateOf(refused(code), { tries: FAILED_TRIES_MAX, leftMs: HOUR_MS }).kind).toBe("dead");
  }
  for (const error of [
    refused("TUTTI_INVALID_INPUT"),
    refused("TUTTI_TOO_LARGE"),
    refused("TUTTI_DEADLINE_INFEASIBLE"),
  ])
    expect(fateOf(error, { tries: 1, leftMs: HOUR_MS })).toEqual({ kind: "dead" });
});

test("pauses double from a second to a minute, and are never shorter than the refusal asks for", () => {
  const pauses = [1, 2, 3, 7, 8].map((tries) => fateOf(refused("TUTTI_OVERLOADED"), { tries, leftMs: HOUR_MS }));
  expect(pauses.map((fate) => fate.kind === "again" && fate.afterMs)).toEqual([1_000, 2_000, 4_000, 60_000, 60_000]);
  const slow = new TuttiError("TUTTI_OVERLOADED", "no", { retryAfterMs: 5_000 });
  expect(fateOf(slow, { tries: 1, leftMs: HOUR_MS })).toEqual({ kind: "again", afterMs: 5_000 });
});

test("no pause outlasts the deadline, and after it every job is dead", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), fc.double({ min: -1e6, max: 1e6, noNaN: true }), (tries, leftMs) => {
      const fate = fateOf(refused("TUTTI_OVERLOADED"), { tries, leftMs });
      if (leftMs <= 0) expect(fate.kind).toBe("dead");
      else expect(fate.kind === "again" && fate.afterMs <= leftMs && fate.afterMs > 0).toBe(true);
    }),
  );
});
