import { actorKey, gpuId } from "@tutti/units";
import { expect, test } from "vitest";
import { Accelerators } from "./accelerators.ts";

test("a sequence out of reach is nobody's, and one that its accelerator contradicts can be forgotten (GPU-6)", () => {
  const accelerators = new Accelerators(4);
  const [gpu, executor] = [gpuId(0), actorKey(7)];
  // An unknown sequence may have any value: the accelerator may have served other rankers before.
  expect(accelerators.isInReach(gpu, 2 ** 45)).toBe(true);
  accelerators.join(gpu, executor, 0, 0, 5);
  expect([accelerators.isInReach(gpu, 6), accelerators.isInReach(gpu, 2 ** 45)]).toEqual([true, false]);
  const granted = accelerators.grant(gpu, 0, 100);
  // A grant that is in flight may not have arrived yet.
  expect([granted, accelerators.isOutdated(gpu, 5)]).toEqual([6, false]);
  accelerators.settle(gpu, 50);
  expect([accelerators.isOutdated(gpu, 5), accelerators.isOutdated(gpu, 6)]).toEqual([true, false]);
  accelerators.leave(gpu);
  accelerators.join(gpu, executor, 0, 0, 2);
  expect(accelerators.grantSeq(gpu)).toBe(6);
  accelerators.forgetSequence(gpu);
  accelerators.join(gpu, executor, 0, 0, 2);
  expect([accelerators.grantSeq(gpu), accelerators.isOutdated(gpu, 2)]).toEqual([2, false]);
});
