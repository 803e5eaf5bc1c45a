import { expect, test } from "vitest";
import { policyNamed, policyNames } from "./policies.ts";

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
  expect(() => policyNamed("default:1")).toThrow("has no parameter");
  for (const text of ["timeout:5ms", "timeout:0", "timeout:20%", "deferred:head", "eager:target", "default"])
    policyNamed(text);
});
