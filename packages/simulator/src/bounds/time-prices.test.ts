import fc from "fast-check";
import { expect, test } from "vitest";
import { type BatchCosts, type ClairvoyantStream, pricedSchedule } from "./clairvoyant.ts";
import { PricedStream, TimePrices } from "./time-prices.ts";

/** Up to six requests of one SLO, up to three batch sizes, and prices of cells of 1 to 4 µs. */
const instances = fc.record({
  arrivals: fc.array(fc.nat(25), { minLength: 1, maxLength: 6 }).map((all) => all.toSorted((a, b) => a - b)),
  slo: fc.integer({ min: 4, max: 20 }),
  steps: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 2 }),
  delay: fc.nat(2),
  cell: fc.integer({ min: 1, max: 4 }),
  prices: fc.array(fc.nat(9), { minLength: 12, maxLength: 12 }),
  skip: fc.nat(20),
});

function streamOf(arrivals: readonly number[], slo: number): ClairvoyantStream {
  return { arrivals: Float64Array.from(arrivals), deadlines: Float64Array.from(arrivals, (at) => at + slo) };
}

function costsOf(steps: readonly number[], delay: number): BatchCosts {
  const raw = (b: number): number => 2 + steps.slice(0, b).reduce((sum, step) => sum + step, 0);
  const run = Float64Array.from({ length: steps.length + 1 }, (_, b) => raw(b));
  return { run, finish: run.map((latency) => latency + delay) };
}

function pricesOf(cell: number, values: readonly number[]): TimePrices {
  const prices = new TimePrices(0, cell, values.length);
  prices.prices.set(values);
  prices.integrate();
  return prices;
}

/** Integral of the prices over a run, cell by cell. */
function costOf({ prices, cell }: TimePrices, start: number, end: number): number {
  return prices.reduce((sum, price, k) => {
    const covered = Math.min(end, (k + 1) * cell) - Math.max(start, k * cell);
    return sum + price * Math.max(0, covered);
  }, 0);
}

/** Every way to split the requests into batches and skips, with every start in steps of an eighth of a µs. */
function byTrial(stream: ClairvoyantStream, costs: BatchCosts, prices: TimePrices, skip: number): number {
  const { arrivals, deadlines } = stream;
  const { run, finish } = costs;
  const leastOf = (first: number, end: number): number => {
    const size = end - first;
    let least = Infinity;
    const from = arrivals[end - 1]! + finish[size]! - run[size]!;
    for (let start = from; start <= deadlines[first]! - run[size]!; start += 0.125)
      least = Math.min(least, costOf(prices, start, start + run[size]!));
    return least;
  };
  const rest = (first: number): number => {
    if (first === arrivals.length) return 0;
    let least = skip + rest(first + 1);
    for (let size = 1; size < run.length && first + size <= arrivals.length; size++)
      least = Math.min(least, leastOf(first, first + size) + rest(first + size));
    return least;
  };
  return rest(0);
}

test("at even prices the cheapest schedule is that of least time", () => {
  fc.assert(
    fc.property(instances, ({ arrivals, slo, steps, delay, skip }) => {
      const [stream, costs] = [streamOf(arrivals, slo), costsOf(steps, delay)];
      const priced = new PricedStream(stream, costs, new TimePrices(0, 4, 20));
      priced.reprice();
      const { time, skipped } = priced.solve(skip);
      const expected = pricedSchedule(stream, costs, skip);
      expect(time + skip * skipped).toBeCloseTo(expected.time + skip * expected.skipped, 9);
    }),
    { numRuns: 300 },
  );
});

test("whatever the prices, no schedule costs less than what is found (PRICE-1 to PRICE-3)", () => {
  fc.assert(
    fc.property(instances, ({ arrivals, slo, steps, delay, cell, prices: values, skip }) => {
      const [stream, costs, prices] = [streamOf(arrivals, slo), costsOf(steps, delay), pricesOf(cell, values)];
      const priced = new PricedStream(stream, costs, prices);
      priced.reprice();
      const { time, skipped } = priced.solve(skip);
      expect(time + skip * skipped).toBeLessThanOrEqual(byTrial(stream, costs, prices, skip) + 1e-9);
    }),
    { numRuns: 200 },
  );
});

test("the least cost of a run that starts within a cell is that of the best of its starts (PRICE-2)", () => {
  fc.assert(
    fc.property(instances, fc.integer({ min: 1, max: 30 }), ({ cell, prices: values }, run) => {
      const prices = pricesOf(cell, values);
      const found = new Float64Array(values.length + 1);
      prices.leastCosts(run, found);
      for (let k = 0; k < values.length; k++) {
        const starts = Array.from({ length: 8 * cell + 1 }, (_, i) => k * cell + i / 8);
        const least = Math.min(...starts.map((start) => costOf(prices, start, start + run)));
        expect(found[k]).toBeCloseTo(least, 9);
      }
      expect(found[values.length]).toBe(0);
    }),
  );
});

test("a load is the time of its runs, by cell", () => {
  const prices = pricesOf(4, [1, 1, 1, 1]);
  const load = new Float64Array(4);
  prices.addRun(load, 2, 9);
  prices.addRun(load, 14, 30);
  expect([...load]).toEqual([0.5, 1, 0.25, 0.5]);
});
