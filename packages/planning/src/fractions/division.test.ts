import { LatencyTable } from "@tutti/profile";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { type DivisibleModel, divisionOf } from "./division.ts";

/** A model of l(b) = 10 + 2·b ms on a whole accelerator that takes so many times longer on a half. */
function onHalf(times: number): DivisibleModel {
  const profile = LatencyTable.affine({ alpha: 2000, beta: 10_000, batchSizeMax: 16 });
  const points = profile.toPoints().map(({ batchSize, latency }) => {
    return { batchSize, latency: micros(Math.ceil(times * latency)) };
  });
  return { share: 1, slo: 100_000, dispersion: 1, profile, half: LatencyTable.fromPoints(points) };
}
const kindOf = (times: number, current?: "whole" | "halves") => divisionOf([onHalf(times)], 8, current).kind;

test("accelerators are divided where halves carry a fifth more, and stay as they are where it is about equal", () => {
  const gainOf = (times: number): number => {
    const { whole, halves } = divisionOf([onHalf(times)], 8);
    return halves.carried / whole.carried;
  };
  expect(gainOf(1.5)).toBeGreaterThan(1.25);
  expect([kindOf(1.5), kindOf(1.5, "halves")]).toEqual(["halves", "halves"]);
  expect(gainOf(1.8)).toBeGreaterThan(1.06);
  expect(gainOf(1.8)).toBeLessThan(1.19);
  expect([kindOf(1.8), kindOf(1.8, "halves")]).toEqual(["whole", "halves"]);
  expect(gainOf(2)).toBeLessThan(1.04);
  expect([kindOf(2), kindOf(2, "halves")]).toEqual(["whole", "whole"]);
});

test("a model that can't meet its SLO on a half keeps accelerators whole", () => {
  expect(kindOf(9)).toBe("whole");
  expect(kindOf(9, "halves")).toBe("whole");
  const never = { ...onHalf(1), slo: 1_000 };
  expect(divisionOf([never], 8)).toMatchObject({ kind: "whole", whole: { carried: 0, waits: 0 } });
});
