import fc from "fast-check";
import { expect, test } from "vitest";
import { covers, isLiteral, isPattern, isSubject, matches } from "./index.ts";

const token = fc.constantFrom("a", "b", "ab", "*x", "$SRV");
const subject = fc.array(token, { minLength: 1, maxLength: 5 }).map((tokens) => tokens.join("."));
const pattern = fc
  .tuple(fc.array(fc.oneof(token, fc.constant("*")), { minLength: 1, maxLength: 5 }), fc.boolean())
  .map(([tokens, open]) => [...tokens, ...(open ? [">"] : [])].join("."));

/** The definition, word by word. */
function naive(patternTokens: readonly string[], tokens: readonly string[]): boolean {
  const [wanted, ...restWanted] = patternTokens;
  const [given, ...rest] = tokens;
  if (wanted === undefined || given === undefined) return wanted === given;
  if (wanted === ">" && restWanted.length === 0) return true;
  return (wanted === "*" || wanted === given) && naive(restWanted, rest);
}

test("a pattern matches what its definition says, token by token", () => {
  fc.assert(
    fc.property(pattern, subject, (wanted, given) => {
      expect(matches(wanted, given)).toBe(naive(wanted.split("."), given.split(".")));
    }),
  );
});

test("a pattern that covers another matches all that the other matches", () => {
  fc.assert(
    fc.property(pattern, pattern, subject, (outer, inner, given) => {
      if (covers(outer, inner) && matches(inner, given)) expect(matches(outer, given)).toBe(true);
    }),
  );
  expect(covers("a.>", "a.*.b")).toBe(true);
  expect(covers("a.*", "a.>")).toBe(false);
  expect(covers("_INBOX.>", "_INBOX")).toBe(false);
});

test("what would break a frame of the protocol is no subject", () => {
  for (const bad of ["", ".a", "a.", "a..b", "a b", "a\r\nPUB x 0", "a\t", "x".repeat(2000)]) {
    expect(isSubject(bad), bad).toBe(false);
    expect(isPattern(bad), bad).toBe(false);
  }
  expect(["infer.mlp.app", "$SRV.PING", "_INBOX.a.1", "a*.b"].every(isSubject)).toBe(true);
});

test("wildcards are whole tokens: published to never, subscribed to with > only at the end", () => {
  expect(["a.*", "a.>", "*", ">"].map(isSubject)).toEqual([false, false, false, false]);
  expect(["a.*.b", "a.>", ">", "a.>.b"].map(isPattern)).toEqual([true, true, true, false]);
  expect(["a*.b", "a.*", "a>", ">"].map(isLiteral)).toEqual([true, false, true, false]);
});
