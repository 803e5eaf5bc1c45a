import { expect, test } from "vitest";
import { measuredDelays } from "./measured-delays.ts";

const report = (...threads: Record<string, number>[]) => ({
  perThread: threads.map((figures, i) => ({ thread: i as never, name: "m", figures })),
});
const counted = (count: number, us: number, respondUs: number) => ({
  ...{ arrivals: count, arrivalLagUs: count * us, grants: count, grantLagUs: count * 100 },
  ...{ finished: count, startDelayUs: 2 * count * us, respondUs },
});

test("delays are means over the requests of all batchers between their reports", () => {
  const quiet = report(counted(0, 0, 9_000));
  const cold = report(counted(100, 9_000, 5_000));
  const warm = report({ ...counted(200, 0, 800), arrivalLagUs: 940_000, grantLagUs: 20_000, startDelayUs: 1_830_000 });
  expect(measuredDelays([{ last: warm, earlier: cold }, { last: quiet }])).toEqual({
    ...{ arriveUs: 400, grantUs: 100, startUs: 300, respondUs: expect.closeTo(800, -2) as number },
  });
});

test("without an earlier report they are means since the beginning, and of nobody 0", () => {
  expect(measuredDelays([{ last: report(counted(10, 250, 700)) }])).toEqual({
    ...{ arriveUs: 250, grantUs: 100, startUs: 500, respondUs: 700 },
  });
  expect(measuredDelays([])).toEqual({ arriveUs: 0, grantUs: 0, startUs: 0, respondUs: 0 });
});
