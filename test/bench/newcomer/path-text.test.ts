import { expect, test } from "vitest";
import { pathTable } from "./path-text.ts";

test("each step says what it took and when it was done", () => {
  const steps = [
    { step: "git clone", seconds: 1.25 },
    { step: "npm start", seconds: 30 },
  ];
  expect(pathTable(steps).split("\n")).toEqual([
    "     took    done at",
    "    1.3 s      1.3 s  git clone",
    "   30.0 s     31.3 s  npm start",
    "",
  ]);
});
