import fc from "fast-check";
import { type Instant, type Micros, Prng, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { policyNames } from "./cluster/policies.ts";
import { type RunListener, simulate, simulateDetailed } from "./run.ts";
import type { Scenario } from "./scenario/scenario.ts";
import type { SimBatch, SimCluster, SimClusterOptions, SimRequest } from "./cluster/simulated-cluster.ts";
import { model, smallScenario } from "./testing/small-scenario.ts";

/** Counts the ends of each request, and looks at what every batch must keep to. */
class Auditor implements RunListener {
  readonly requests: SimRequest[] = [];
  readonly ends: number[] = [];
  /** By accelerator, or by part of one. */
  readonly #busyUntil = new Map<string, number>();
  #now = 0;

  arrived(request: SimRequest): void {
    this.requests.push(request);
    this.ends[request.id] = 0;
  }
  dispatched(batch: SimBatch, at: Instant): void {
    this.#passes(at);
    expect(batch.requests.length).toBeGreaterThan(0);
  }
  refused(request: SimRequest, _cause: string, at: Instant): void {
    this.#passes(at);
    this.ends[request.id]!++;
  }
  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    this.#passes(end);
    const place = `${batch.gpu} ${batch.part?.place}`;
    expect(begin).toBeGreaterThanOrEqual(this.#busyUntil.get(place) ?? 0); // T4
    this.#busyUntil.set(place, end);
    for (const request of batch.requests) {
      expect(request.model).toBe(batch.model);
      if (completed) this.ends[request.id]!++;
    }
  }
  #passes(at: number): void {
    expect(at).toBeGreaterThanOrEqual(this.#now);
    this.#now = at;
  }
}

function randomScenario(seed: number, policy: string): Scenario {
  const prng = new Prng(seed);
  const processes = [{ process: "poisson" }, { process: "gamma", shape: 0.2 }, { process: "uniform" }] as const;
  const count = 1 + prng.nextInt(4);
  const classes = prng.nextInt(2) === 0 ? [] : [{ slo: millis(100), share: 0.5 }];
  return smallScenario({
    seed,
    policy,
    gpus: 1 + prng.nextInt(6),
    gather: prng.nextInt(2) === 0 ? "head" : "target",
    rate: 200 + prng.nextInt(6000),
    duration: micros(300_000),
    warmup: micros(50_000),
    arrivals: processes[prng.nextInt(3)]!,
    network: {
      ctrl: micros(prng.nextInt(500)),
      data: micros(prng.nextInt(50)),
      respond: micros(prng.nextInt(500)),
      jitter: prng.nextInt(2) * 0.2,
    },
    models: Array.from({ length: count }, (_, i) => model(`m${i}`, 1 / count, { classes })),
  });
}

const parameters: Readonly<Record<string, string>> = { timeout: "timeout:5ms" };

test.each(policyNames())("every request ends exactly once and no accelerator runs two batches under %s", (name) => {
  fc.assert(
    fc.property(fc.nat(2 ** 31), (seed) => {
      const auditor = new Auditor();
      simulate(randomScenario(seed, parameters[name] ?? name), { listener: auditor });
      expect(auditor.requests.filter(({ id }) => auditor.ends[id] !== 1)).toEqual([]);
    }),
    { numRuns: 10 },
  );
});

test.each(policyNames())("equal scenarios have equal results, and another seed has another, under %s", (name) => {
  const policy = parameters[name] ?? name;
  const scenario = smallScenario({ policy, duration: micros(400_000) });
  expect(simulate({ ...scenario })).toEqual(simulate(scenario));
  expect(simulate({ ...scenario, seed: 2 })).not.toEqual({ ...simulate(scenario), seed: 2 });
});

const OWN = ["default", "deferred", "eager", "timeout:5ms", "latest", "beta-lambda"];

test.each(OWN)(
  "who only wants the result gets the same in less time: requests told in advance, under %s (CLUSTER-4)",
  (policy) => {
    const seen = { requests: 0, bad: 0 };
    fc.assert(
      fc.property(fc.nat(2 ** 31), fc.constantFrom(0.5, 3, 20), (seed, times) => {
        const { rate, ...scenario } = randomScenario(seed, policy);
        // Two slices and more, at the highest rates a dozen.
        const busier = { ...scenario, rate: rate * times, duration: micros(900_000) };
        let arrived = 0;
        const listener = { refused: () => undefined, finished: () => undefined, arrived: () => void arrived++ };
        const each = simulateDetailed(busier, { listener });
        expect(simulateDetailed(busier)).toEqual(each);
        seen.requests += arrived;
        seen.bad += each.streams.reduce((sum, { bad }) => sum + bad, 0);
      }),
      { numRuns: 15 },
    );
    expect(seen.requests).toBeGreaterThan(5_000);
    expect(seen.bad).toBeGreaterThan(100);
  },
);

test("bad rates agree with docs/algorithms.md, A10.8: 5,000 and 8,000 r/s, target and head", () => {
  const long = { duration: micros(6_000_000), warmup: micros(1_000_000) };
  const badRate = (rate: number, gather: "target" | "head") =>
    simulate(smallScenario({ ...long, rate, gather })).badRate;
  expect(badRate(5000, "target")).toBeLessThan(0.003);
  expect(badRate(8000, "target")).toBeGreaterThan(0.26);
  expect(badRate(8000, "target")).toBeLessThan(0.3);
  expect(badRate(8000, "head")).toBeGreaterThan(0.75);
});

test("deferred leaves the highest accelerators idle at 3,000 r/s, eager keeps all busy with small batches", () => {
  const deferred = simulate(smallScenario({ rate: 3000 }));
  const eager = simulate(smallScenario({ rate: 3000, policy: "eager" }));
  expect(deferred.gpu.busyFraction * 8).toBeCloseTo(4.24, 0);
  expect(deferred.gpu.used).toBeLessThan(8);
  expect(eager.gpu.busyFraction * 8).toBeGreaterThan(7.6);
  expect(eager.batchSize.p50).toBe(2);
  expect(eager.batchSize.mean).toBeLessThan(deferred.batchSize.mean / 2);
});

test("delays are planned with at their upper end, and no answer is late for them", () => {
  const network = { ctrl: micros(300), data: micros(40), respond: micros(800), jitter: 0.25 };
  const refusedOrLate = { refused: 0, late: 0 };
  simulate(smallScenario({ network, rate: 4000 }), {
    listener: {
      refused: () => refusedOrLate.refused++,
      finished: ({ requests }, begin, end) => {
        for (const { deadline } of requests) if (end + 1000 > deadline) refusedOrLate.late++;
        expect(begin - requests.at(-1)!.arrivedAt).toBeGreaterThanOrEqual(375 + 50 * requests.length - 50);
      },
    },
  });
  expect(refusedOrLate.late).toBe(0);
  const without = simulate(smallScenario({ rate: 4000 })).batchSize.mean;
  expect(simulate(smallScenario({ network, rate: 4000 })).batchSize.mean).toBeLessThan(without);
});

/** Runs each request alone, `wait` after it arrived, for `run`; refuses every tenth. */
function slowCluster({ listener }: SimClusterOptions): SimCluster {
  let [batches, freeAt] = [0, 0];
  return {
    arrive(request) {
      if (request.id % 10 === 0) return listener.refused(request, "overloaded", request.arrivedAt);
      const begin = Math.max(freeAt, request.arrivedAt + 1_000) as Instant;
      freeAt = begin + 2_000;
      listener.finished({ id: ++batches, model: 0, gpu: 0, requests: [request] }, begin, freeAt as Instant, true);
    },
    runUntilIdle() {},
  };
}

test("the judge counts requests of the window only, refused ones as infinitely late", () => {
  const scenario = smallScenario({ arrivals: { process: "uniform" }, rate: 100, gpus: 2, warmup: micros(200_000) });
  const { result, streams } = simulateDetailed(scenario, { cluster: slowCluster });
  expect(result.offeredRps).toBe(100);
  expect(result.goodRps).toBe(90);
  expect(result.badRate).toBeCloseTo(0.1, 9);
  expect(result.gpu.count).toBe(2);
  expect(result.gpu.used).toBe(1);
  expect(result.gpu.busyFraction).toBeCloseTo((90 * 0.002) / 2, 3);
  expect(result.batchSize).toEqual({ mean: 1, p50: 1, p99: 1 });
  expect(result.queueDelayMs).toEqual({ p50: 1, p99: 1 });
  expect(result.models).toMatchObject([{ name: "resnet50", p50Ms: 3, p99Ms: null, batchMean: 1 }]);
  expect(streams).toEqual([{ model: 0, slo: 25_000, offered: 200, bad: 20 }]);
  expect(JSON.stringify(result)).toContain('"p99Ms":null');
});

test("each SLO class of a model is judged by itself (A7)", () => {
  const classes = [{ slo: 2_900 as Micros, share: 0.5 }];
  const scenario = smallScenario({ arrivals: { process: "uniform" }, rate: 100, models: [model("a", 1, { classes })] });
  const { streams } = simulateDetailed(scenario, { cluster: slowCluster });
  const bySlo = Object.fromEntries(streams.map((stream) => [stream.slo, stream]));
  expect(bySlo[2_900]!.bad).toBe(bySlo[2_900]!.offered);
  expect(bySlo[25_000]!.bad / bySlo[25_000]!.offered).toBeCloseTo(0.1, 1);
});

test("a cluster that loses a request stops the run", () => {
  const losing = (): SimCluster => ({ arrive() {}, runUntilIdle() {} });
  expect(() => simulate(smallScenario(), { cluster: losing })).toThrow("more came in than went out");
});
