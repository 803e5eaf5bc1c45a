import { expect, test } from "vitest";
import { fromHalf, toHalf } from "./index.ts";

test("every half-precision number survives the way to a number and back", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = fromHalf(bits);
    const back = toHalf(value);
    if (value !== value) expect([back & 0x7c00, (back & 0x3ff) > 0]).toEqual([0x7c00, true]);
    else if (back !== bits) expect([bits, back]).toEqual("never");
  }
});

test("a number becomes the nearest half, ties to the even one", () => {
  const halves = Array.from({ length: 0x7c00 }, (_, bits) => fromHalf(bits));
  for (let bits = 0; bits + 1 < halves.length; bits += 7) {
    const [low, high] = [halves[bits]!, halves[bits + 1]!];
    const middle = (low + high) / 2;
    const even = bits % 2 === 0 ? bits : bits + 1;
    expect([toHalf(middle), toHalf(-middle)]).toEqual([even, even | 0x8000]);
    expect(toHalf(low + (high - low) * 0.49)).toBe(bits);
    expect(toHalf(low + (high - low) * 0.51)).toBe(bits + 1);
  }
  expect([toHalf(65_519.9), toHalf(65_520), toHalf(1e300), toHalf(-0)]).toEqual([0x7bff, 0x7c00, 0x7c00, 0x8000]);
  expect(toHalf(1 - 2 ** -40)).toBe(toHalf(1));
});
