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

test("entries that are over make room, however many accelerators come and go", () => {
  const accepted = new AcceptedGrants();
  for (let gpu = 0; gpu < 10_000; gpu++) {
    expect(accepted.accept(instant(gpu), grant(gpu, 1, 1, instant(gpu + 10)))).toBe(true);
    expect(accepted.size).toBeLessThanOrEqual(64);
  }
  expect(accepted.accept(instant(10_000), grant(9_999, 1, 1))).toBe(false);
});

test("a grant that was overtaken is not accepted either where it is valid for longer than the newer one", () => {
  const accepted = new AcceptedGrants();
  expect(accepted.accept(instant(1), grant(0, 1, 6, instant(20)))).toBe(true);
  expect(accepted.accept(instant(2), grant(0, 1, 8, instant(5)))).toBe(true);
  expect(accepted.accept(instant(10), grant(0, 1, 7, instant(20)))).toBe(false);
  expect(accepted.accept(instant(21), grant(0, 1, 7, instant(30)))).toBe(true); // By now nothing older is valid.
});

test("a grant with a false number, far ahead, stops its accelerator only until its own end", () => {
  const accepted = new AcceptedGrants();
  expect(accepted.accept(instant(1), grant(0, 1, 2 ** 32, instant(5)))).toBe(true);
  expect(accepted.accept(instant(5), grant(0, 1, 7, instant(9)))).toBe(false);
  expect(accepted.accept(instant(6), grant(0, 1, 8, instant(9)))).toBe(true);
  expect(accepted.accept(instant(6), grant(0, 1, 8, instant(9)))).toBe(false);
});
