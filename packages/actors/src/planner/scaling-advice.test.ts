import { type Instant, seconds } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type AdvisedModel, ScalingAdvice } from "./scaling-advice.ts";

const model = (number: number, figures: Pick<AdvisedModel, "ok" | "bad" | "infeasible">): AdvisedModel => ({
  ...{ number, sloMs: 50, work: 1 },
  ...{ rate: 100, latestRate: 100 },
  ...figures,
});
const rate = fc.integer({ min: 0, max: 500 }).map((requests) => requests / 1.0037);

test("whatever part of the requests is bad, all of them included, there is advice", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(rate, rate), { minLength: 8, maxLength: 8 }),
      fc.constantFrom(0, 0, 1),
      fc.double({ min: 0.4, max: 1, noNaN: true }),
      (figures, share, busy) => {
        const advice = new ScalingAdvice(seconds(6));
        let badRate = 0;
        for (const [second, [bad, infeasible]] of figures.entries()) {
          const models = [
            model(1, { ok: share * bad, bad, infeasible }),
            model(2, { ok: 0, bad: infeasible, infeasible: bad }),
          ];
          const at = (1_000_000 * second) as Instant;
          const told = advice.hear({ gpus: 2, subClusters: 1, measured: { gpus: 2, busy: 2 * busy }, models }, at);
          badRate = told.badRate;
        }
        expect(badRate).toBeGreaterThanOrEqual(0);
        expect(badRate).toBeLessThanOrEqual(1);
      },
    ),
    { numRuns: 300 },
  );
});
