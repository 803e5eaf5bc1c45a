import { REPORTED_ARRIVALS_MAX, REPORTED_STREAMS_MAX, readArrivals } from "@tutti/protocol";
import { type Instant, micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RequestSampler } from "./request-sampler.ts";

const SLO = micros(25_000);
const spec = (name: string) => ({ name, slo: SLO });
const at = (us: number): Instant => (10_000_000 + us) as Instant;

test("what came is told once, by model, application and SLO, at the microsecond", () => {
  const sampler = new RequestSampler();
  sampler.arrived(spec("mlp"), "shop", SLO, at(100));
  sampler.arrived(spec("ocr"), "shop", SLO, at(200));
  sampler.arrived(spec("mlp"), "shop", micros(123_456), at(300));
  sampler.arrived(spec("mlp"), "shop", SLO, at(400));
  const read = readArrivals(sampler.told(at(1_000)).arrivals, at(1_000));
  expect(read).toEqual({
    every: 1,
    left: 0,
    streams: [
      { model: "mlp", app: "shop", slo: SLO },
      { model: "ocr", app: "shop", slo: SLO },
      { model: "mlp", app: "shop", slo: 120_000 },
    ],
    arrivals: [
      { stream: 0, at: at(100) },
      { stream: 1, at: at(200) },
      { stream: 2, at: at(300) },
      { stream: 0, at: at(400) },
    ],
  });
  expect(sampler.told(at(2_000))).toEqual({});
});

test("where more came than a report holds, a bounded part stands for all, of every model alike (TR1)", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 1, max: 7 }), (count, models) => {
      const sampler = new RequestSampler();
      for (let i = 0; i < count; i++) sampler.arrived(spec(`m${i % models}`), "shop", SLO, at(i));
      const { every, arrivals } = readArrivals(sampler.told(at(count)).arrivals, at(count))!;
      expect(arrivals.length).toBeLessThanOrEqual(REPORTED_ARRIVALS_MAX);
      expect(every === 1).toBe(count <= REPORTED_ARRIVALS_MAX);
      if (every === 1) expect(arrivals).toHaveLength(count);
      // Six standard deviations of a binomial draw.
      const close = (kept: number, of: number): void =>
        expect(Math.abs(kept * every - of)).toBeLessThan(6 * Math.sqrt(of * every) + every);
      close(arrivals.length, count);
      for (let m = 0; m < models; m++) close(arrivals.filter(({ stream }) => stream === m).length, count / models);
    }),
    { numRuns: 30 },
  );
});

test("applications beyond those that are told are counted, and what remembers them doesn't grow", () => {
  const sampler = new RequestSampler();
  for (let i = 0; i < REPORTED_STREAMS_MAX + 5; i++) sampler.arrived(spec("mlp"), `app-${i}`, SLO, at(i));
  const read = readArrivals(sampler.told(at(1_000)).arrivals, at(1_000))!;
  expect([read.streams.length, read.left]).toEqual([REPORTED_STREAMS_MAX, 5]);
});
