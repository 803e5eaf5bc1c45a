import { type GpuId, gpuId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AcceptedGrants } from "./accepted-grants.ts";

const grant = (gpu: number, epoch: number, grantSeq: number) => ({ gpu: gpuId(gpu), epoch, grantSeq });

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
        expect(accepted.accept(grant(gpu, epoch, grantSeq))).toBe(isNewest);
        all.set(gpuId(gpu), [...before, grantSeq]);
      }
    }),
    { numRuns: 300 },
  );
});

test("of many accelerators the oldest is forgotten, and those beside it are not", () => {
  const accepted = new AcceptedGrants();
  for (let gpu = 0; gpu < 4_097; gpu++) expect(accepted.accept(grant(gpu, 1, 1))).toBe(true);
  expect(accepted.size).toBe(4_096);
  expect([1, 4_096].map((gpu) => accepted.accept(grant(gpu, 1, 1)))).toEqual([false, false]);
  expect(accepted.accept(grant(0, 1, 1))).toBe(true);
});
