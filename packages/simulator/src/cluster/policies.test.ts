import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { policyNamed, policyNames } from "./policies.ts";
import { simulate } from "../run.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

test("an unknown policy's error lists what exists", () => {
  expect(policyNames()).toEqual(
    expect.arrayContaining(["default", "deferred", "eager", "timeout", "latest", "beta-lambda"]),
  );
  expect(() => policyNamed("lazy")).toThrow(`there is no policy 'lazy'; there are ${policyNames().join(", ")}`);
  expect(() => policyNamed("toString")).toThrow("there is no policy 'toString'");
  expect(() => policyNamed("")).toThrow("there is no policy ''");
});

test("a parameter that a policy doesn't take is refused with what it does take", () => {
  expect(() => policyNamed("timeout")).toThrow(
    "needs a time or a share of the SLO, as in 'timeout:5ms' or 'timeout:20%'",
  );
  expect(() => policyNamed("timeout:soon")).toThrow(
    "needs a time or a share of the SLO, as in 'timeout:5ms' or 'timeout:20%'",
  );
  expect(() => policyNamed("deferred:tail")).toThrow("takes 'head' or 'target', but was given 'tail'");
  expect(() => policyNamed("default:1")).toThrow("takes 'latency' or 'accelerators'");
  for (const text of [
    "timeout:5ms",
    "timeout:0",
    "timeout:20%",
    "deferred:head",
    "eager:target",
    "default",
    "default:accelerators",
  ])
    policyNamed(text);
});

test("a time-out as a share of the SLO is each model's own", () => {
  const delayOf = (policy: string, sloMs: number): number => {
    const models = [model("only", 1, { slo: millis(sloMs) })];
    return simulate(smallScenario({ models, gpus: 8, rate: 5, policy })).queueDelayMs.p50 ?? NaN;
  };
  for (const sloMs of [40, 80]) {
    expect(delayOf("timeout:25%", sloMs)).toBe(delayOf(`timeout:${sloMs / 4}ms`, sloMs));
    expect(delayOf("timeout:25%", sloMs)).toBeCloseTo(sloMs / 4, 0);
  }
});
