import fc from "fast-check";
import { expect, test } from "vitest";
import { D6_PROFILES, d6Model } from "../testing/worked-fractions.ts";
import { divisibleModels, divisionOf } from "./division.ts";
import { type DivisibleType, type TypedDivisibleModel, divisionOfTypes } from "./typed-division.ts";

type Profile = TypedDivisibleModel["profiles"][number];

/** Times are in ms. */
const slower = ({ byBatchSize, batchSizeMax }: Profile, times: number): Profile => ({
  byBatchSize: byBatchSize.map((time) => times * time),
  batchSizeMax,
});

/** D6's models, asked for equally, on types that take so many times as long. */
function d6(times: readonly number[], change: Partial<TypedDivisibleModel> = {}): TypedDivisibleModel[] {
  const models = D6_PROFILES.map((_, id) => d6Model(id, 1));
  return divisibleModels(models, undefined).map(({ profile, half, ...one }) => ({
    ...one,
    profiles: times.map((type) => slower(profile, type)),
    halves: times.map((type) => slower(half, type)),
    ...change,
  }));
}
const pool = (...counts: readonly number[]): DivisibleType[] => counts.map((count) => ({ count }));

test("accelerators of one type are divided as by divisionOf", () => {
  const models = divisibleModels(
    D6_PROFILES.map((_, id) => d6Model(id, 1)),
    undefined,
  );
  for (const current of ["whole", "halves"] as const) {
    const { kind, whole, halves } = divisionOf(models, 4, current);
    expect(kind).toBe("halves");
    const types = [{ count: 4, isDivided: current === "halves" }];
    expect(divisionOfTypes(d6([1]), types)).toEqual({ divided: [true], whole, halves });
  }
});

test("each type is divided where that carries more of the mix, and only there", () => {
  // Measured by goodput, whole, fast as halves, slow as halves, both: 114, 628, 336, 1492 r/s.
  const both = divisionOfTypes(d6([1, 2]), pool(2, 4));
  expect(both.divided).toEqual([true, true]);
  expect(both.halves.carried).toBeGreaterThan(10 * both.whole.carried);
  // 29, 1858, 29, 1905: eight of nine models have SLOs that the slow ones are too slow for.
  expect(divisionOfTypes(d6([1, 4]), pool(4, 8)).divided).toEqual([true, false]);
  expect(divisionOfTypes(d6([4, 1]), pool(8, 4)).divided).toEqual([false, true]);
  // 8,600, 9,223, 7,610, 9,719: enough accelerators to be found in time.
  expect(divisionOfTypes(d6([1, 2]), pool(8, 16)).divided).toEqual([false, false]);
});

test("a type stays whole where its halves would serve a model with too little room for the others to gather batches", () => {
  // `le` takes 1.5 and 3 ms. Measured by goodput, whole, fast as halves, slow as halves: 2696, 4362, 1999 r/s.
  const [le, be, nas] = d6([1, 2]) as [TypedDivisibleModel, TypedDivisibleModel, TypedDivisibleModel];
  expect(divisionOfTypes([{ ...le, slo: 3 }, be, nas], pool(2, 3)).divided).toEqual([true, false]);
  expect(divisionOfTypes([{ ...le, slo: 4.5 }, be, nas], pool(2, 3)).divided).toEqual([true, true]);
});

test("a type stays whole where one of its models would carry less than four fifths alone on its halves", () => {
  const filling = (times: number): TypedDivisibleModel => {
    const [{ profiles, ...one }] = d6([1, 2]) as [TypedDivisibleModel];
    return { ...one, profiles, halves: profiles.map((profile) => slower(profile, times)), slo: 20 };
  };
  expect(divisionOfTypes([...d6([1, 2]), filling(1)], pool(2, 4)).divided).toEqual([true, true]);
  expect(divisionOfTypes([...d6([1, 2]), filling(2.6)], pool(2, 4)).divided).toEqual([false, false]);
  expect(divisionOfTypes([...d6([1, 2]), { ...filling(2.6), share: 0 }], pool(2, 4)).divided).toEqual([true, true]);
});

test("nothing is divided where nothing is asked for, or where no type serves a model in time", () => {
  expect(divisionOfTypes(d6([1, 2], { share: 0 }), pool(2, 4)).divided).toEqual([false, false]);
  const never = divisionOfTypes(d6([1, 2], { slo: 0.1 }), pool(2, 4));
  expect(never).toMatchObject({ divided: [false, false], whole: { carried: 0 } });
});

test("equal loads come to rest: what was divided so stays so", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 9, maxLength: 9 }),
      fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 })),
      fc.constantFrom(1, 10),
      (shares, counts, dispersion) => {
        const models = d6([1, 2, 3]).map((model, i) => ({ ...model, share: shares[i]!, dispersion }));
        const { divided } = divisionOfTypes(models, pool(...counts));
        const types = counts.map((count, type) => ({ count, isDivided: divided[type]! }));
        expect(divisionOfTypes(models, types).divided).toEqual(divided);
      },
    ),
    { numRuns: 60 },
  );
});
