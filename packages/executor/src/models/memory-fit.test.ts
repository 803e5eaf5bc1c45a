import fc from "fast-check";
import { expect, test } from "vitest";
import { fitInMemory } from "./memory-fit.ts";

const resident = (name: string, bytes: number, isHere = false) => ({ name, bytes, isHere });

test("what is here keeps its room; others come in their order as far as they fit; who must wait for others to leave has its room", () => {
  const residents = [
    resident("a", 40),
    resident("b", 30, true),
    resident("c", 50),
    resident("d", 20),
    resident("e", 1),
  ];
  expect([...fitInMemory(residents, { max: 100, leaving: 0 })]).toEqual([
    ["b", "fits"],
    ["a", "fits"],
    ["c", "never"],
    ["d", "fits"],
    ["e", "fits"],
  ]);
  expect([...fitInMemory(residents, { max: 100, leaving: 40 })]).toEqual([
    ["b", "fits"],
    ["a", "waits"],
    ["c", "never"],
    ["d", "waits"],
    ["e", "waits"],
  ]);
});

test("the largest run of those that fit needs room besides, whoever's it is", () => {
  const residents = [
    { ...resident("a", 40, true), dynamic: 30 },
    resident("b", 30),
    { ...resident("c", 1), dynamic: 60 },
  ];
  expect([...fitInMemory(residents, { max: 100, leaving: 0 })]).toEqual([
    ["a", "fits"],
    ["b", "fits"],
    ["c", "never"],
  ]);
  expect(fitInMemory(residents, { max: 131, leaving: 0 }).get("c")).toBe("fits");
  expect(fitInMemory(residents, { max: 131, leaving: 1 }).get("c")).toBe("waits");
  expect(fitInMemory(residents, { max: 99, leaving: 0 }).get("b")).toBe("never");
});

test("whatever there is, what fits fits together with what leaves, what waits without it, and what never does would not have", () => {
  const someResident = fc.record({ bytes: fc.nat(50), isHere: fc.boolean() });
  fc.assert(
    fc.property(fc.array(someResident, { maxLength: 12 }), fc.nat(200), fc.nat(50), (drawn, max, leaving) => {
      const residents = drawn.map((one, i) => ({ ...one, name: `${i}` }));
      const fits = fitInMemory(residents, { max, leaving });
      const sum = (which: readonly string[], isHere: boolean): number =>
        residents
          .filter((one) => one.isHere === isHere && which.includes(fits.get(one.name)!))
          .reduce((total, { bytes }) => total + bytes, 0);
      const here = sum(["fits"], true);
      const [now, later] = [sum(["fits"], false), sum(["fits", "waits"], false)];
      if (now > 0) expect(here + now + leaving).toBeLessThanOrEqual(max);
      if (later > 0) expect(here + later).toBeLessThanOrEqual(max);
      for (const { name, bytes, isHere } of residents) {
        if (isHere) expect(fits.get(name)).toBe("fits");
        else if (fits.get(name) === "never") expect(here + later + bytes).toBeGreaterThan(max);
      }
    }),
  );
});
