import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { Announcer } from "./announcer.ts";
import { absenceText } from "./model-sources.ts";

const absence = (models: string | undefined, served: number, repository: number, modelsPoll?: number): unknown =>
  absenceText(
    { models, modelsPoll: modelsPoll === undefined ? undefined : micros(modelsPoll) },
    { models: served, repository },
  );

test("a folder without a model is told by its layout, and that models can be loaded later", () => {
  expect(absence("in/models", 0, 0)).toMatch(
    /^Nothing is served yet\.\n--models in\/models has no model: the layout is in\/models\/mlp\/1\/model\.onnx, and .+slo\.\n`tutti load /,
  );
  expect(absence("in/models", 2, 0)).toMatch(/^--models in\/models has no model/);
  expect(absence("in/models", 0, 0, 10_000_000)).toContain("looked at every 10 s");
  expect(absence(undefined, 0, 0)).toMatch(/^Nothing is served yet\.\n`tutti load /);
  for (const [place, served] of [[undefined, 1] as const, ["in/models", 1] as const])
    expect(absence(place, served, 1)).toBe(undefined);
});

test("without a model there is no empty table", () => {
  const lines: string[] = [];
  new Announcer({ json: false, write: (line) => lines.push(line) }).models([]);
  expect(lines).toEqual(["Ready. Ctrl-C stops everything."]);
});
