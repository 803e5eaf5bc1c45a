import { type ActorKey, type Instant, Prng, micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { ObservedLoad, dispersionOf } from "./observed-load.ts";

const START = 1_700_000_000_000_000;
const SECONDS = 20;
const SLO = micros(50_000);

/** Times of arrivals whose gaps are sums of so many exponential ones, or bursts of so many at once. */
function arrivals(perSecond: number, kind: "even" | "poisson" | "bursts", seed = 1): number[] {
  const prng = new Prng(seed);
  const times: number[] = [];
  const burst = kind === "bursts" ? 10 : 1;
  for (let at = 0; at < SECONDS * 1e6;) {
    at += kind === "even" ? 1e6 / perSecond : prng.nextExponential(perSecond / burst / 1e6);
    for (let i = 0; i < burst; i++) times.push(at + i);
  }
  return times.filter((at) => at < SECONDS * 1e6);
}

interface Stream {
  readonly model: string;
  readonly slo: typeof SLO;
  readonly at: readonly number[];
}

/** Tells an ingress' arrivals second by second, every k-th of them at random. */
function tell(load: ObservedLoad, key: number, streams: readonly Stream[], every = 1): void {
  const prng = new Prng(key);
  for (let second = 0; second <= SECONDS; second++) {
    const at = (START + second * 1e6) as Instant;
    const rows = streams.flatMap((stream, i) =>
      stream.at
        .filter((time) => time >= (second - 1) * 1e6 && time < second * 1e6 && prng.nextFloat() < 1 / every)
        .flatMap((time) => [i, Math.round(second * 1e6 - time)]),
    );
    const told = streams.map(({ model, slo }) => ({ model, app: "shop", slo }));
    load.hear({ key: key as ActorKey, role: "ingress", at, arrivals: { every, left: 0, streams: told, rows } });
  }
}

test("rates are sums over ingresses, and the SLOs of a model's requests have their shares", () => {
  const load = new ObservedLoad();
  const slow = seconds(1);
  tell(load, 1, [
    { model: "a", slo: SLO, at: arrivals(60, "even") },
    { model: "b", slo: SLO, at: arrivals(5, "even") },
  ]);
  tell(load, 2, [{ model: "a", slo: slow, at: arrivals(20, "even") }]);
  const [a, b] = load.models();
  expect(a).toMatchObject({ name: "a", rate: expect.closeTo(80, 0) as number });
  expect(a!.slos.map(({ slo, share }) => [slo, Number(share.toFixed(2))])).toEqual([
    [SLO, 0.75],
    [slow, 0.25],
  ]);
  expect(b).toMatchObject({ name: "b", rate: expect.closeTo(5, 0) as number, slos: [{ slo: SLO, share: 1 }] });
});

test("burstiness is 0 of even arrivals, 1 of Poisson's, and more of bursts, also where a report lists a part", () => {
  const told = (kind: "even" | "poisson" | "bursts", every: number, rate = 1_000): number => {
    const load = new ObservedLoad();
    tell(load, 3, [{ model: "a", slo: SLO, at: arrivals(rate, kind) }], every);
    return load.burstiness()!;
  };
  for (const every of [1, 4]) {
    expect(told("even", every)).toBeLessThan(0.5);
    expect(Math.abs(told("poisson", every) - 1)).toBeLessThan(0.35);
    expect(told("bursts", every)).toBeGreaterThan(6);
    expect(told("bursts", every)).toBeLessThan(15);
  }
  expect(Math.abs(told("poisson", 1, 30) - 1)).toBeLessThan(0.25);
});

test("of too few requests no burstiness is told, nor from what an ingress reports first", () => {
  expect(dispersionOf([1, 2, 3], 1)).toBeUndefined();
  expect(dispersionOf([], 1)).toBeUndefined();
  const load = new ObservedLoad();
  const told = { every: 1, left: 0, streams: [{ model: "a", app: "x", slo: SLO }], rows: [0, 5] };
  load.hear({ key: 1 as ActorKey, role: "ingress", at: START as Instant, arrivals: told });
  load.hear({ key: 2 as ActorKey, role: "batcher", at: START as Instant, arrivals: told });
  expect(load.models()).toEqual([]);
  expect(load.burstiness()).toBeUndefined();
});
