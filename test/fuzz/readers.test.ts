import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { allocatedBy } from "./allocations.ts";
import { attack, judge } from "./campaign.ts";
import { TARGETS, cleanUp } from "./targets.ts";

const CASES = 2_000;
const SLOW_SHARE = 20;
const casesOf = (slow: true | undefined, cases: number): number => Math.ceil(cases / (slow === true ? SLOW_SHARE : 1));

afterAll(cleanUp);

test("readers take real messages as they are", () => {
  for (const target of TARGETS)
    for (const sample of target.samples) expect([target.name, judge(target, sample)]).toEqual([target.name, "read"]);
});

test.each(TARGETS)(
  "$name: a mutated message is read or refused with a typed error, and asks for no more memory than it has bytes for",
  (target) => {
    const { fault } = attack(target, { seed: 1, cases: casesOf(target.slow, CASES) });
    expect(fault).toBeUndefined();
  },
);

test.each(TARGETS)("$name: so are any bytes", (target) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(["read", "refused"]).toContain(judge(target, bytes));
    }),
    { numRuns: casesOf(target.slow, 200), seed: 7 },
  );
});

test("the counter of allocations sees what is asked for by length", () => {
  expect(allocatedBy(() => void new Float64Array(1_000))).toBe(8_000);
  expect(allocatedBy(() => void new Array(1_000))).toBe(8_000);
  expect(allocatedBy(() => void new Uint8Array(new Uint8Array(9).buffer, 1, 4))).toBe(9);
  const lying = { name: "lying", samples: [], read: (bytes: Uint8Array) => new Uint8Array(bytes[0]! << 20) };
  expect(judge(lying, new Uint8Array([1]))).toMatch(/^asks for 1048576 bytes, 8256 are justified/);
  const throwing = { name: "throwing", samples: [], read: () => (undefined as unknown as { readonly x: number }).x };
  expect(judge(throwing, new Uint8Array([1]))).toMatch(/^throws TypeError/);
});
