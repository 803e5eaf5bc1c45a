import { type GpuId, gpuId, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AcceptedGrants } from "./accepted-grants.ts";

const NOW = instant(1);
const grant = (gpu: number, epoch: number, grantSeq: number, validUntil = instant(10)) => ({
  ...{ gpu: gpuId(gpu), epoch, grantSeq, validUntil },
});

test("each grant is accepted once, and none after a newer one of its accelerator, however they come", () => {
  const coming = fc.array(
    fc.record({ gpu: fc.nat(3), grantSeq: fc.integer({ min: 1, max: 6 }), isNext: fc.boolean() }),
  );
  fc.assert(
    fc.property(coming, (grants) => {
      const accepted = new AcceptedGrants();
      const all = new Map<GpuId, number[]>();
      let epoch = 1;
      for (const [i, { gpu, grantSeq, isNext }] of grants.entries()) {
        if (isNext && i % 8 === 7) {
          epoch++;
          all.clear();
        }
        const before = all.get(gpuId(gpu)) ?? [];
        const isNewest = before.every((seq) => seq < grantSeq);
        expect(accepted.accept(NOW, grant(gpu, epoch, grantSeq))).toBe(isNewest);
        all.set(gpuId(gpu), [...before, grantSeq]);
      }
    }),
    { numRuns: 300 },
  );
});

test("of many accelerators the oldest is forgotten, and those beside it are not", () => {
  const accepted = new AcceptedGrants();
  for (let gpu = 0; gpu < 4_097; gpu++) expect(accepted.accept(NOW, grant(gpu, 1, 1))).toBe(true);
  expect(accepted.size).toBe(4_096);
  expect([1, 4_096].map((gpu) => accepted.accept(NOW, grant(gpu, 1, 1)))).toEqual([false, false]);
  expect(accepted.accept(NOW, grant(0, 1, 1))).toBe(true);
});

test("a grant with a false number, far ahead, stops its accelerator only until its own end", () => {
  const accepted = new AcceptedGrants();
  expect(accepted.accept(instant(1), grant(0, 1, 2 ** 32, instant(5)))).toBe(true);
  expect(accepted.accept(instant(5), grant(0, 1, 7, instant(9)))).toBe(false);
  expect(accepted.accept(instant(6), grant(0, 1, 8, instant(9)))).toBe(true);
  expect(accepted.accept(instant(6), grant(0, 1, 8, instant(9)))).toBe(false);
});
