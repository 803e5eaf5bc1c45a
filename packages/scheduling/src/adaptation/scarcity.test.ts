import { LatencyTable } from "@tutti/profile";
import { type Instant, type Micros, Prng, micros, millis, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster } from "../lockstep/cluster.ts";
import { HighestScarcity } from "./highest-scarcity.ts";
import type { Request } from "../messages.ts";
import type { ModelThreadConfig } from "../model-thread/model-thread-state.ts";
import type { Preference } from "../policy.ts";
import { Scarcity, spareTime } from "./scarcity.ts";

const at = (us: number): Instant => us as Instant;

test("accelerators lack in proportion to the slack that batches lose, and in full from a sixth on", () => {
  const scarcity = new Scarcity();
  expect(scarcity.level(0)).toBe(0);
  scarcity.note(at(0), 1, 1_000, 12_000); // the first says all that is known
  expect(scarcity.level(0)).toBeCloseTo(0.5, 9);
  scarcity.note(at(0), 1_024, 30_000, 12_000);
  expect(scarcity.level(0)).toBe(1);
  scarcity.note(at(0), 512, -5, 12_000);
  expect(scarcity.level(0)).toBe(1); // half of the slack is lost on average
  scarcity.note(at(0), 1_024, 0, 12_000);
  expect(scarcity.level(0)).toBe(0);
});

test("accelerators lack in full where half a percent of the requests is lost, however little slack the others lose", () => {
  const scarcity = new Scarcity();
  expect(scarcity.level(0.002)).toBeCloseTo(0.4, 9);
  expect(scarcity.level(0.005)).toBe(1);
  scarcity.note(at(0), 1, 1_000, 12_000);
  expect(scarcity.level(0.001)).toBeCloseTo(0.5, 9);
});

test("who finds accelerators free doesn't need an early start; before anything is known, everybody does", () => {
  const scarcity = new Scarcity();
  expect(scarcity.waiting).toBe(1);
  scarcity.note(at(0), 1, -5, 12_000);
  expect(scarcity.waiting).toBe(0);
  scarcity.note(at(0), 512, 1, 12_000);
  expect(scarcity.waiting).toBeCloseTo(0.5, 9);
});

test("a model hears of the highest scarcity that any model has reported in the last seconds", () => {
  const highest = new HighestScarcity(4);
  expect(highest.at(at(0))).toBe(0);
  highest.report(1, 40, at(0));
  highest.report(2, 90, at(1_000_000));
  highest.report(3, 60, at(2_000_000));
  expect(highest.at(at(2_000_000))).toBe(90);
  highest.report(2, 0, at(3_000_000));
  expect(highest.at(at(3_000_000))).toBe(60);
  highest.forget(3);
  expect(highest.at(at(5_000_000))).toBe(40);
  expect(highest.at(at(5_000_001))).toBe(0);
});

test("a model of a long SLO gathers batches of twice the size while one of a short SLO loses requests", () => {
  const batches = (shortRate: number): number => {
    const sizes: number[] = [];
    const model = (number: number, slo: number, alpha: number, beta: number): ModelThreadConfig => ({
      ...{ thread: threadId(number, 0), term: 1, epoch: 1, slo: millis(slo), patience: 1, gather: "target" },
      ...{ profile: LatencyTable.affine({ alpha, beta, batchSizeMax: 64 }), prefer: "latency" },
      ...{ guard: micros(0), ctrl: micros(0), perItem: micros(0), respond: micros(0) },
      ...{ queueMax: 1_000, batchesInFlightMax: 1_000, policy: { kind: "adaptive" } },
    });
    const cluster = new Cluster({
      gpus: 2,
      models: [model(0, 280, 750, 28_700), model(1, 3, 400, 700)],
      listener: {
        dispatched: ({ thread, requests }) => {
          if (thread === threadId(0, 0)) sizes.push(requests.length);
        },
      },
    });
    const prng = new Prng(3);
    const due = [0, 0];
    for (let seq = 1; Math.min(...due) < 20_000_000; seq++) {
      const which = due[0]! <= due[1]! ? 0 : 1;
      const [rate, slo] = which === 0 ? [40e-6, 280_000] : [shortRate, 3_000];
      const now = Math.round(due[which]!);
      due[which]! += prng.nextExponential(rate);
      const request = { ingress: 1, seq, deadline: now + slo, arrivedAt: now, slo, app: 0, size: 0 };
      cluster.arrive(which, request as unknown as Request);
    }
    cluster.runUntilIdle();
    const late = sizes.slice(sizes.length >> 1);
    return late.reduce((sum, size) => sum + size, 0) / late.length;
  };
  expect(batches(50e-6)).toBeGreaterThan(2 * batches(1e-6));
});

test("what was seen five seconds ago doesn't count any more, however few requests came since", () => {
  const scarcity = new Scarcity();
  scarcity.note(at(0), 1, 1, 1);
  scarcity.note(at(1_000_000), 1, 0, 1);
  expect(scarcity.level(0)).toBe(1);
  scarcity.note(at(6_000_000), 1, 0, 1);
  expect(scarcity.level(0)).toBe(0);
});

test("a batch waits for as many requests as save a share that is needed: all of it at level 1, none at 0", () => {
  const profile = { alpha: 1_053, beta: 5_072 };
  const perMicro = 0.005;
  expect(spareTime(profile, 4, perMicro, 0)).toBe(Infinity);
  expect(spareTime(profile, 4, perMicro, 1)).toBeCloseTo(0, 6);
  // l(b')/b' is half of l(4)/4 = 2,321 µs for b' = 47.2: 43.2 requests, 200 µs apart.
  expect(spareTime(profile, 4, perMicro, 0.5)).toBeCloseTo((5_072 / (1_160.5 - 1_053) - 4) * 200, 6);
  expect(spareTime(profile, 4, 0, 0.9)).toBe(Infinity);
});

/** Latencies in µs of requests to one model with Poisson arrivals. */
function latencies(prefer: Preference | "eager", { rate, gpus }: { rate: number; gpus: number }): number[] {
  const found: number[] = [];
  const cluster = new Cluster({
    gpus,
    models: [
      {
        ...{ thread: threadId(0, 0), term: 1, epoch: 1, slo: millis(25), patience: 1, gather: "target" },
        ...{ profile: LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 }) },
        ...{ guard: micros(0), ctrl: micros(0), perItem: micros(0), respond: micros(0) },
        ...{ queueMax: 1_000, batchesInFlightMax: 1_000 },
        ...(prefer === "eager" ? { policy: { kind: "eager" } } : { policy: { kind: "adaptive" }, prefer }),
      },
    ],
    listener: {
      finished: ({ requests }, _, end) => found.push(...requests.map(({ arrivedAt }) => end - arrivedAt)),
    },
  });
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let now = 0, seq = 1; now < seconds(10); now += Math.ceil((-Math.log(random()) * 1e6) / rate), seq++) {
    const request = { ingress: 1, seq, deadline: now + 25_000, arrivedAt: now, slo: 25_000 as Micros, app: 0, size: 0 };
    cluster.arrive(0, request as unknown as Request);
  }
  cluster.runUntilIdle();
  return found.toSorted((a, b) => a - b);
}
const mean = (times: readonly number[]): number => times.reduce((sum, time) => sum + time, 0) / times.length;
const p99 = (times: readonly number[]): number => times[Math.floor(0.99 * times.length)]!;

test.each([
  { rate: 20, gpus: 1 },
  { rate: 540, gpus: 8 },
  { rate: 1_600, gpus: 8 },
  { rate: 2_700, gpus: 8 },
  { rate: 3_500, gpus: 8 },
])("at $rate r/s on $gpus accelerators answers take no longer than under eager dispatch", (load) => {
  const [ours, eager, saving] = [latencies("latency", load), latencies("eager", load), latencies("accelerators", load)];
  expect(mean(ours)).toBeLessThanOrEqual(1.05 * mean(eager));
  expect(p99(ours)).toBeLessThanOrEqual(1.05 * p99(eager));
  if (load.rate > 100) expect(mean(saving)).toBeGreaterThan(1.3 * mean(ours));
});

test("near saturation as many are answered in time as where accelerators are saved, and more than under eager dispatch", () => {
  const load = { rate: 5_400, gpus: 8 };
  const saving = latencies("accelerators", load).length;
  expect(latencies("latency", load).length).toBeGreaterThan(0.998 * saving);
  expect(latencies("eager", load).length).toBeLessThan(0.93 * saving);
});
