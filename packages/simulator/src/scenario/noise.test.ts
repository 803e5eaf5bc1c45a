import { LatencyTable } from "@tutti/profile";
import { type Instant, micros, millis, seconds } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Noise, NoiseSource, STALL_SCOPES, type StallScope, plannedRun } from "./noise.ts";
import { isForNoise, policyNames } from "../cluster/policies.ts";
import { decisionLines } from "../results/decision-log.ts";
import { type RunListener, simulate } from "../run.ts";
import type { Scenario } from "./scenario.ts";

const at = (us: number): Instant => us as Instant;
const recorded = (scope: StallScope): Noise => ({
  stalls: [{ kind: "recorded", scope, length: seconds(1), stalls: [{ at: millis(100), length: millis(10) }] }],
});
/** Where the recording's stall is first seen, which the seed decides. */
function firstStall(source: NoiseSource): number {
  for (let begin = 0; ; begin += 1_000) if (source.runTime(0, at(begin), millis(1)) > 1_000) return begin;
}

test("a run that a standstill falls into takes so much longer, and stalls come again with the recording", () => {
  const source = new NoiseSource(recorded("machine"), { seed: 1, gpus: 2 });
  const first = firstStall(source);
  expect(source.runTime(0, at(first - 5_000), millis(20))).toBe(30_000);
  expect(source.runTime(1, at(first + 995_000), millis(20))).toBe(30_000); // 1 s later, and on any accelerator
  expect(source.runTime(0, at(first + 20_000), millis(20))).toBe(20_000);
});

test("what comes while the machine stands is heard at the end; stalls of one accelerator delay nobody else", () => {
  const machine = new NoiseSource(recorded("machine"), { seed: 1, gpus: 1 });
  const begin = firstStall(machine) + 2_000;
  expect(machine.heardAt(at(begin)) - begin).toBeGreaterThan(7_000);
  expect(machine.heardAt(at(begin + 20_000))).toBe(begin + 20_000);
  const single = new NoiseSource(recorded("accelerator"), { seed: 1, gpus: 1 });
  expect(single.heardAt(at(firstStall(single) + 2_000))).toBe(firstStall(single) + 2_000);
});

test("a scheduler that stands still hears what comes at the end, and no run takes longer for it", () => {
  const source = new NoiseSource(recorded("scheduler"), { seed: 1, gpus: 2 });
  const heard = Array.from({ length: 2_000 }, (_, i) => source.heardAt(at(1_000 * i)) - 1_000 * i);
  expect(heard.filter((late) => late > 0).length).toBe(20); // 10 ms of each second
  expect(Math.max(...heard)).toBeLessThanOrEqual(10_000);
  expect(source.runTime(0, at(0), seconds(2))).toBe(2_000_000);
});

test("where runs go on, one that ends within a standstill ends with it, and no other takes longer", () => {
  for (const scope of ["machine", "accelerator"] as const) {
    const source = new NoiseSource({ ...recorded(scope), runsGoOn: true }, { seed: 1, gpus: 2 });
    const stops = new NoiseSource(recorded(scope), { seed: 1, gpus: 2 });
    const first = firstStall(stops) + 1_000; // the run that begins there ends in it
    expect(source.runTime(0, at(first - 5_000), millis(20))).toBe(20_000);
    const times = [0, 1].map((gpu) => source.runTime(gpu, at(first - 5_000), millis(8)));
    expect(times[0]).toBeGreaterThan(12_000);
    expect(times[0]).toBeLessThanOrEqual(15_000);
    expect(times[1]).toBe(times[0]); // one process has them all
    // Beginning a batch is its process's work.
    expect(source.delay(0, at(first - 500), millis(2))).toBeGreaterThan(10_000);
  }
});

test("standstills depend on the seed alone: whatever was asked before, and however many accelerators there are (NO1)", () => {
  const stalls = STALL_SCOPES.map((scope) => {
    return { kind: "drawn", scope, every: millis(20), median: millis(1), p99: millis(6) } as const;
  });
  const moment = fc.integer({ min: 0, max: 3_000_000 });
  fc.assert(
    fc.property(
      fc.nat(),
      fc.array(moment),
      fc.array(moment),
      fc.integer({ min: 2, max: 9 }),
      (seed, some, all, gpus) => {
        const asked = new NoiseSource({ stalls }, { seed, gpus });
        for (const one of some) asked.runTime(1, at(asked.heardAt(at(one))), millis(1));
        const fresh = new NoiseSource({ stalls }, { seed, gpus: 1 });
        for (const one of all) {
          expect(asked.heardAt(at(one))).toBe(fresh.heardAt(at(one)));
          expect(asked.runTime(0, at(one), millis(9))).toBe(fresh.runTime(0, at(one), millis(9)));
          expect(fresh.heardAt(fresh.heardAt(at(one)))).toBe(fresh.heardAt(at(one)));
        }
      },
    ),
  );
});

test("where standstills of several scopes overlap, what comes in any of them is heard when the last is over", () => {
  const stalls = (["machine", "scheduler"] as const).map((scope) => {
    return { kind: "drawn", scope, every: millis(10), median: millis(5), p99: millis(20) } as const;
  });
  fc.assert(
    fc.property(
      fc.nat(),
      fc.integer({ min: 0, max: 1_000_000 }),
      fc.integer({ min: 1, max: 30_000 }),
      (seed, us, more) => {
        const source = new NoiseSource({ stalls }, { seed, gpus: 1 });
        const [heard, later] = [source.heardAt(at(us)), source.heardAt(at(us + more))];
        if (us + more < heard) expect(later).toBe(heard);
        else expect(later).toBeGreaterThanOrEqual(us + more);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("drawn standstills have the gaps and the lengths that were asked for, the same for each seed", () => {
  const stalls = [{ kind: "drawn", scope: "machine", every: millis(100), median: millis(1), p99: millis(10) }] as const;
  const lost = (seed: number): number => {
    const source = new NoiseSource({ stalls }, { seed, gpus: 1 });
    return source.runTime(0, at(0), seconds(100)) - seconds(100);
  };
  // 1,000 stalls with a mean of exp(σ²/2) = 1.63 ms, σ = ln 10 / 2.326.
  expect(lost(1)).toBeGreaterThan(1_400_000);
  expect(lost(1)).toBeLessThan(1_900_000);
  expect(lost(1)).toBe(lost(1));
  expect(lost(2)).not.toBe(lost(1));
});

test("slow runs: drawn ones by share and factor, recorded ones by the stretches that they fall into; plans know the typical run", () => {
  const drawn: Noise = { stalls: [], slow: { kind: "drawn", share: 0.1, factor: 3 } };
  const source = new NoiseSource(drawn, { seed: 1, gpus: 1 });
  const times = Array.from({ length: 10_000 }, (_, i) => source.runTime(0, at(10_000 * i), millis(1)));
  expect(times.filter((time) => time > 1_000).length / times.length).toBeCloseTo(0.1, 1);
  expect(Math.max(...times)).toBeLessThanOrEqual(3_000);
  expect(plannedRun(drawn, millis(1))).toBe(1_000);
  const mostly: Noise = { stalls: [], slow: { kind: "drawn", share: 0.9, factor: 3 } };
  expect(plannedRun(mostly, millis(1))).toBe(1_889);

  const slow = { kind: "recorded", every: millis(5), factors: [1, 1, 1, 2] } as const;
  const track = new NoiseSource({ stalls: [], slow }, { seed: 1, gpus: 1 });
  expect(track.runTime(0, at(0), micros(17_500))).toBe(20_000); // three stretches, and half of the work in the slow one
  expect(plannedRun({ stalls: [], slow }, millis(5))).toBe(5_000);
  expect(plannedRun({ stalls: [], slow }, millis(20))).toBe(25_000);
});

const scenario: Scenario = {
  ...{ seed: 1, duration: seconds(11), warmup: seconds(1), gpus: 8, policy: "default", gather: "target", rate: 3_500 },
  arrivals: { process: "poisson" },
  network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
  models: [
    {
      ...{ name: "m", slo: millis(25), classes: [], share: 1 },
      profile: LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 }),
    },
  ],
  phases: [],
  noise: {
    stalls: [{ kind: "drawn", scope: "machine", every: millis(250), median: millis(2), p99: millis(10) }],
  },
};

test("a noisy scenario gives the same result each time, and the default loses less by noise than eager and deferred dispatch", () => {
  const badRate = (policy: string): number => simulate({ ...scenario, policy }).badRate;
  expect(simulate(scenario)).toEqual(simulate(scenario));
  expect(badRate("default")).toBeLessThan(0.01);
  expect(badRate("default")).toBeLessThan(0.7 * badRate("eager"));
  expect(badRate("default")).toBeLessThan(badRate("default:accelerators"));
});

const NOISY = policyNames()
  .filter(isForNoise)
  .map((policy) => (policy === "timeout" ? "timeout:5ms" : policy));
const short = (policy: string, noise?: Noise): Scenario => {
  const { noise: _, ...quiet } = scenario;
  const times = { duration: millis(400), warmup: micros(0), gpus: 3, rate: 1_900 };
  return { ...quiet, ...times, policy, ...(noise !== undefined && { noise }) };
};
const FAR = { ctrl: micros(300), data: micros(10), respond: micros(200), jitter: 0 };

test.each(NOISY)("without standstills every decision of %s is the same, to the byte, as without noise", (policy) => {
  const never = (scopes: readonly StallScope[]): Noise => ({
    stalls: scopes.map((scope) => ({ kind: "recorded", scope, length: seconds(1), stalls: [] })),
  });
  const quiet = decisionLines(short(policy));
  expect(quiet.length).toBeGreaterThan(800);
  expect(decisionLines(short(policy, never(STALL_SCOPES)))).toEqual(quiet);
  // Where runs may take longer, Tutti's executors report their ends, also before the next batch's inputs are there.
  const far = { ...short(policy, never(["scheduler"])), network: FAR };
  expect(decisionLines(far)).toEqual(decisionLines({ ...short(policy), network: FAR }));
});

test.each(NOISY)("while it stands still, %s decides nothing; runs go on, and each request ends once", (policy) => {
  for (const scope of ["machine", "scheduler"] as const) {
    const noise: Noise = {
      stalls: [{ kind: "drawn", scope, every: millis(20), median: millis(4), p99: millis(9) }],
    };
    const source = new NoiseSource(noise, { seed: 1, gpus: 1 });
    const isDeaf = (moment: Instant): boolean => source.heardAt(moment) > moment;
    const seen = { arrived: 0, ended: 0, endedUnheard: 0, decidedUnheard: 0, longer: 0 };
    const listener: RunListener = {
      arrived: () => void seen.arrived++,
      dispatched: (_, moment) => void (seen.decidedUnheard += isDeaf(moment) ? 1 : 0),
      refused: (_, __, moment) => {
        seen.ended++;
        seen.decidedUnheard += isDeaf(moment) ? 1 : 0;
      },
      finished: ({ requests }, begin, end, completed) => {
        if (!completed) return;
        seen.ended += requests.length;
        // A run that ends as a standstill begins has ended before it.
        seen.endedUnheard += isDeaf((end - 1) as Instant) ? 1 : 0;
        seen.longer += end - begin > scenario.models[0]!.profile.latency(requests.length) ? 1 : 0;
      },
    };
    simulate(short(policy, noise), { listener });
    expect(seen.ended).toBe(seen.arrived);
    expect(seen.decidedUnheard).toBe(0);
    expect(seen.endedUnheard > 0, "runs end while the scheduler alone stands").toBe(scope === "scheduler");
    expect(seen.longer > 0, "runs take longer while the machine stands").toBe(scope === "machine");
  }
});
