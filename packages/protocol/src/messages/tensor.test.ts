import { expect, test } from "vitest";
import { canHold } from "../index.ts";

test("a type holds what its elements can be, and nothing that isn't finite", () => {
  const held = [
    ["BOOL", 1],
    ["UINT8", 255],
    ["INT8", -128],
    ["INT64", -5],
    ["FP16", 65_504],
    ["FP32", 0.1],
    ["FP64", 1e300],
  ] as const;
  for (const [type, value] of held) expect([type, canHold(type, value)]).toEqual([type, true]);
  const not = [
    ["BOOL", 2],
    ["UINT8", 256],
    ["UINT32", -1],
    ["INT8", 128],
    ["INT32", 0.5],
    ["INT64", 1e300],
    ["FP16", 65_600],
    ["FP32", 1e39],
    ["FP64", Infinity],
    ["FP32", NaN],
  ] as const;
  for (const [type, value] of not) expect([type, value, canHold(type, value)]).toEqual([type, value, false]);
});
