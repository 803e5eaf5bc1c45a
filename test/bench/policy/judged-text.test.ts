import { expect, test } from "vitest";
import { type Judged, render } from "./judged-text.ts";

const judged = (goodputRps: number, mixRps: number): Judged => ({
  policies: ["deferred", "default"],
  rows: [{ name: "one model", boundRps: 6_000, goodputRps: [5_000, goodputRps] }],
  mixes: [
    { seed: 1, goodputRps: mixRps, rival: "deferred", rivalRps: 100 },
    { seed: 2, goodputRps: 100, rival: "eager", rivalRps: 100 },
  ],
});

test("a row has each policy's goodput, and the mixes their mean and their worst beside the best of the others", () => {
  const text = render(judged(5_500, 81));
  expect(text).toContain("| goodput, r/s | deferred | default | bound |");
  expect(text).toContain("| one model | 5,000 | 5,500 | 6,000 |");
  expect(text).toContain("geometric mean 0.900, worst 0.810 (1, deferred)");
  expect(text).not.toContain("before");
});

test("beside an earlier outcome each row and the mixes say how much the default changed", () => {
  const text = render(judged(5_500, 81), judged(5_000, 100));
  expect(text).toContain("| one model | 5,000 | 5,500 | 6,000 | 1.100 |");
  expect(text).toContain("default ÷ before: geometric mean 0.900, worst 0.810 (1)");
});

test("a row that the earlier outcome lacks has no ratio", () => {
  expect(render(judged(5_500, 81), { policies: ["default"], rows: [], mixes: [] })).toContain("| 6,000 | – |");
});
