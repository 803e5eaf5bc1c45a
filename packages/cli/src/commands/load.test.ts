import { expect, test } from "vitest";
import { sharesOf } from "./load.ts";

test("--share takes an application and its weight, again and again, and says what is wrong with anything else", () => {
  expect(sharesOf(["camera=3", "ocr-rec=0.5", "*=1"])).toEqual({ camera: 3, "ocr-rec": 0.5, "*": 1 });
  for (const bad of ["camera", "camera=", "=3", "camera=three", "camera=0", "camera=-1", "a.b=1"])
    expect(() => sharesOf([bad]), bad).toThrow(/--share/);
});
