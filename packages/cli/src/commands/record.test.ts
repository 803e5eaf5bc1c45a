import { expect, test } from "vitest";
import { modelsOf, progressText } from "./record.ts";

test("before the first request a recording says that it waits, since its time begins with that", () => {
  const none = { t: 0, count: 0, bytes: 200, missed: 0 };
  expect(progressText(none, "t.jsonl")).toBe(
    "recording to t.jsonl: waits for the first request, from which time counts",
  );
  const some = { t: 12_300_000, count: 7, bytes: 1_000_000, missed: 2 };
  expect(progressText(some, "t.jsonl")).toMatch(/^recording to t.jsonl: 7 requests in 12 s, 1\S* MB, 2 missed$/);
});

test("models and versions of them can be recorded, each once, and no other names", () => {
  expect(modelsOf("mlp, mlp/2,mlp")).toEqual(["mlp", "mlp/2"]);
  expect(modelsOf(undefined)).toEqual([]);
  for (const bad of ["a b", "mlp/", "a.b", ""]) expect(() => modelsOf(bad)).toThrow("is no name of a model");
});
