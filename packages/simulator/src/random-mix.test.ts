import fc from "fast-check";
import { expect, test } from "vitest";
import { staggeredRate } from "./bounds.ts";
import { randomMix } from "./random-mix.ts";

test("every mix is in its ranges, and can be served; equal seeds give equal mixes", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), (seed) => {
      const mix = randomMix(seed);
      expect(mix.gpus).toBeGreaterThanOrEqual(4);
      expect(mix.gpus).toBeLessThanOrEqual(32);
      expect(mix.models.length).toBeGreaterThanOrEqual(2);
      expect(mix.models.length).toBeLessThanOrEqual(10);
      expect(mix.models.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
      for (const { profile, slo } of mix.models) {
        expect(slo / profile.latency(1)).toBeGreaterThan(1.99);
        expect(slo / profile.latency(1)).toBeLessThan(10.01);
        expect(profile.latency(profile.batchSizeMax)).toBeLessThanOrEqual(slo);
      }
      expect(staggeredRate(mix)).toBeGreaterThan(0);
      expect(randomMix(seed)).toEqual(mix);
    }),
  );
});

test("a mix with a rarely asked model runs longer, so that 1 % of that model is 50 requests", () => {
  const rests = Array.from({ length: 200 }, (_, seed) => {
    const mix = randomMix(seed);
    const rarest = Math.min(...mix.models.map(({ share }) => share));
    return { s: (mix.duration - mix.warmup) / 1e6, bad: 0.01 * rarest * 0.6 * staggeredRate(mix) };
  });
  for (const { s, bad } of rests) expect(s >= 600 || bad * s > 49.9).toBe(true);
  expect(rests.filter(({ s }) => s < 600).length).toBeGreaterThan(150);
});
