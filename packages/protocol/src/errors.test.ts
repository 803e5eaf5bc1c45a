import { expect, test } from "vitest";
import { ERROR_STATUS, type ErrorCode, codeNumber, codeOfNumber } from "./errors.ts";

test("every error code has a number of its own, and comes back from it", () => {
  const codes = Object.keys(ERROR_STATUS) as ErrorCode[];
  for (const code of codes) expect(codeOfNumber(codeNumber(code)), code).toBe(code);
  expect(new Set(codes.map(codeNumber)).size).toBe(codes.length);
});

test("a number that this version does not know is an internal error", () => {
  expect(codeOfNumber(250)).toBe("TUTTI_INTERNAL");
});
