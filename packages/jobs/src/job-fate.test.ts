import { type ErrorCode, TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FAILED_TRIES_MAX, JOB_TRIES_MAX, fateOf, isFailure } from "./job-fate.ts";

const refused = (code: ErrorCode, retryable?: boolean): TuttiError =>
  new TuttiError(code, "no", retryable === undefined ? {} : { retryable });
const HOUR_MS = 3_600_000;

/** So many failures, each at the job's last delivery. */
const after = (failures: number) => ({ tries: failures, failures, leftMs: HOUR_MS });

test("a job that only waited is tried as long as its deadline allows, and has failed at nothing", () => {
  for (const error of [
    refused("TUTTI_OVERLOADED"),
    refused("TUTTI_NOT_READY"),
    refused("TUTTI_QUOTA_EXCEEDED"),
    refused("TUTTI_DEADLINE_INFEASIBLE", true),
  ]) {
    expect(isFailure(error)).toBe(false);
    const waited = { tries: 100_000, failures: JOB_TRIES_MAX - 1, leftMs: HOUR_MS };
    expect(fateOf(error, waited)).toEqual({ kind: "again", afterMs: 60_000 });
  }
});

test("however often a job waited, its first failure is the first", () => {
  const failed = { tries: 1_000, failures: 1, leftMs: HOUR_MS };
  for (const code of ["TUTTI_INTERNAL", "TUTTI_NOT_FOUND", "TUTTI_UNAVAILABLE"] as const)
    expect(fateOf(refused(code), failed)).toEqual({ kind: "again", afterMs: 60_000 });
});

test("a job whose executors die is tried so many times and no more", () => {
  const lost = refused("TUTTI_UNAVAILABLE");
  expect(fateOf(lost, after(JOB_TRIES_MAX - 1)).kind).toBe("again");
  expect(fateOf(lost, after(JOB_TRIES_MAX))).toEqual({ kind: "dead" });
});

test("a model that nobody knows, or that fails, is tried a few times; a bad input is not", () => {
  for (const code of ["TUTTI_NOT_FOUND", "TUTTI_INTERNAL"] as const) {
    expect(fateOf(refused(code), after(FAILED_TRIES_MAX - 1)).kind).toBe("again");
    expect(fateOf(refused(code), after(FAILED_TRIES_MAX)).kind).toBe("dead");
  }
  for (const error of [
    refused("TUTTI_INVALID_INPUT"),
    refused("TUTTI_TOO_LARGE"),
    refused("TUTTI_DEADLINE_INFEASIBLE"),
  ])
    expect(fateOf(error, after(1))).toEqual({ kind: "dead" });
});

test("pauses double from a second to a minute, and are never shorter than the refusal asks for", () => {
  const pauses = [1, 2, 3, 7, 8].map((tries) => fateOf(refused("TUTTI_OVERLOADED"), after(tries)));
  expect(pauses.map((fate) => fate.kind === "again" && fate.afterMs)).toEqual([1_000, 2_000, 4_000, 60_000, 60_000]);
  const slow = new TuttiError("TUTTI_OVERLOADED", "no", { retryAfterMs: 5_000 });
  expect(fateOf(slow, after(1))).toEqual({ kind: "again", afterMs: 5_000 });
});

test("no pause outlasts the deadline, and after it every job is dead", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), fc.double({ min: -1e6, max: 1e6, noNaN: true }), (tries, leftMs) => {
      const fate = fateOf(refused("TUTTI_OVERLOADED"), { tries, failures: tries, leftMs });
      if (leftMs <= 0) expect(fate.kind).toBe("dead");
      else expect(fate.kind === "again" && fate.afterMs <= leftMs && fate.afterMs > 0).toBe(true);
    }),
  );
});
