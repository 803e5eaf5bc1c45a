import { expect, test } from "vitest";
import { PartFigures } from "./part-figures.ts";

test("a part's requests, answers and refusals by cause are told with whose part it is, until that is gone", () => {
  const figures = new PartFigures();
  const head = { kind: "variant", of: "heads", name: "head-a" } as const;
  figures.offered(head);
  figures.offered(head, 3);
  figures.answered(head, { late: false });
  figures.answered(head, { late: true });
  figures.refused(head, "TUTTI_OVERLOADED");
  figures.offered({ kind: "stage", of: "ocr", name: "detect" });
  expect(figures.report()).toEqual([
    { ...head, figures: { offered: 4, ok: 2, late: 1, refused: 1, "refused.TUTTI_OVERLOADED": 1 } },
    { kind: "stage", of: "ocr", name: "detect", figures: { offered: 1, ok: 0, late: 0, refused: 0 } },
  ]);
  figures.forget("heads");
  expect(figures.report().map(({ name }) => name)).toEqual(["detect"]);
});

test("beyond a thousand or so parts newcomers are not told apart, and those known count on (T7)", () => {
  const figures = new PartFigures();
  for (let i = 0; i < 5_000; i++) figures.offered({ kind: "variant", of: `f${i}`, name: `v${i}` });
  figures.offered({ kind: "variant", of: "f0", name: "v0" });
  const report = figures.report();
  expect(report).toHaveLength(1_024);
  expect(report[0]!.figures["offered"]).toBe(2);
});
