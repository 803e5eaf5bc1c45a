import { expect, test } from "vitest";
import { ERROR_STATUS, type ErrorCode, TuttiError, codeNumber, codeOfNumber } from "./errors.ts";

test("every error code has a number of its own, and comes back from it", () => {
  const codes = Object.keys(ERROR_STATUS) as ErrorCode[];
  for (const code of codes) expect(codeOfNumber(codeNumber(code)), code).toBe(code);
  expect(new Set(codes.map(codeNumber)).size).toBe(codes.length);
});

test("503 is the status of what may be sent again, and no other error's", () => {
  for (const code of Object.keys(ERROR_STATUS) as ErrorCode[])
    for (const retryable of [false, true]) {
      const { status } = new TuttiError(code, "", { retryable });
      if (status === 503) expect(retryable, code).toBe(true);
      else if (status !== 422) expect(status, code).toBe(ERROR_STATUS[code]);
    }
  const usual = Object.keys(ERROR_STATUS).map((code) => [code, new TuttiError(code as ErrorCode, "").status]);
  expect(Object.fromEntries(usual)).toEqual(ERROR_STATUS);
});

test("a number that this version does not know is an internal error", () => {
  expect(codeOfNumber(250)).toBe("TUTTI_INTERNAL");
});
