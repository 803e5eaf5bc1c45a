import { expect, test } from "vitest";
import { EXIT } from "./failure.ts";
import { secondsOption, waitOption } from "./seconds-option.ts";

const failure = (read: () => number): unknown => {
  try {
    return read();
  } catch (error) {
    return error;
  }
};
const wrong = (message: string) => expect.objectContaining({ exitCode: EXIT.usage, message });

test("a wait in which an idle actor could be missed is refused, with the least", () => {
  expect([waitOption("1.1"), waitOption("10"), waitOption(" 2.5 ")]).toEqual([1_100, 10_000, 2_500]);
  for (const wait of ["1", "0", "-3", "soon", " "])
    expect(failure(() => waitOption(wait))).toEqual(
      wrong(`--wait ${wait}: a number of seconds from 1.1 to 86400: an idle actor is heard once a second`),
    );
});

test("what no timer can wait for is refused", () => {
  for (const text of ["Infinity", "1e300", "86401", "NaN"])
    expect(failure(() => secondsOption("--timeout", text, { least: 1 }))).toEqual(
      wrong(`--timeout ${text}: a number of seconds from 1 to 86400`),
    );
  expect(secondsOption("--timeout", "600", { least: 1, most: 600 })).toBe(600_000);
});
