import { type Instant, Prng, millis } from "@tutti/units";
import { expect, test, vi } from "vitest";
import { Flood, type Pause, type Sender } from "../testing/flooded-cluster.ts";
import { CLASSES_MAX, FairShares } from "./fair-shares.ts";
import { waterLevel } from "./max-min.ts";

/** Rate that two accelerators serve with at most 1 % lost (`one application` below); all results are relative to it. */
const GOODPUT = 1_150;
const steady = (app: number, rate: number, more: Partial<Sender> = {}): Sender => ({ app, rate: () => rate, ...more });
const flooding = (app: number, rate: number, from: number): Sender => ({
  app,
  rate: (at) => (at < from ? rate : 20 * GOODPUT),
});

/** Times of a dispatch: each takes a millisecond of the one accelerator. */
const BUSY = { idleFor: 0, run: 1_000, work: 1_000 };

test("one application is served exactly as without shares, however many requests it sends (SHARE-1)", () => {
  const alone = new Flood({ senders: [steady(1, 10 * GOODPUT)], seconds: 1 });
  const outcomes = (flood: Flood): string => flood.sent.map(({ outcome, endedAt }) => `${outcome}@${endedAt}`).join();
  const weighted = new Flood({
    senders: [steady(1, 10 * GOODPUT)],
    seconds: 1,
    rules: { weights: new Map([[1, 0.001]]), priorityFloor: 0 },
  });
  expect(outcomes(weighted)).toBe(outcomes(alone));
  // A2 lets requests grow old before it drops them; a share would refuse most of them on arrival.
  expect(alone.sent.some(({ outcome, at, endedAt }) => outcome !== "served" && endedAt <= at * 1e6 + 1)).toBe(false);
});

test("requests of the system's own that are lost, for want of any accelerator, limit nobody; under overload they don't come in", () => {
  const own = { app: 9, isOwn: true };
  const at = (ms: number): Instant => millis(1_000 + ms) as unknown as Instant;
  const flooded = (request: { app: number; isOwn?: boolean }): FairShares => {
    const shares = new FairShares({}, millis(100));
    for (let ms = 0; ms < 1_000; ms++) {
      shares.admit(at(ms), { app: 1 });
      shares.dispatched([{ app: 1 }], BUSY);
      shares.admit(at(ms), request);
      shares.dropped(at(ms), request);
    }
    return shares;
  };
  const calm = flooded(own);
  expect([calm.isLimiting, calm.shares(), calm.admit(at(1_000), own)]).toEqual([false, [], true]);
  const limiting = flooded({ app: 2 });
  expect([limiting.isLimiting, limiting.admit(at(1_000), own)]).toEqual([true, false]);
});

test("what accelerators had to do before and after is told of each period alone, idle times cut to a period", () => {
  const shares = new FairShares({}, millis(100));
  const ended = vi.spyOn(shares.control, "end");
  const at = (ms: number): Instant => millis(1_000 + ms) as unknown as Instant;
  for (let ms = 0; ms < 1_000; ms += 10) {
    shares.admit(at(ms), { app: 1 });
    shares.dropped(at(ms), { app: 1 });
    if (ms % 100 === 0) shares.dispatched([{ app: 1 }], { idleFor: 1e9, run: 7, work: 5 });
  }
  const told = ended.mock.calls.map(([{ idle, run, work }]) => `${idle} ${run} ${work}`);
  expect(new Set(told)).toEqual(new Set(["0 0 0", "50000 7 5"]));
  expect(told.filter((one) => one === "0 0 0").length).toBeGreaterThan(4);
});

test("beside requests of the system's own one application keeps its share, and while accelerators stand idle nobody is refused", () => {
  const refusedOf = (idleFor: number): { own: number; app: number } => {
    const shares = new FairShares({}, millis(100));
    const refused = { own: 0, app: 0 };
    for (let ms = 0; ms < 2_000; ms++) {
      const at = millis(1_000 + ms) as unknown as Instant;
      if (ms === 1_000) refused.own = refused.app = 0;
      if (!shares.admit(at, { app: 9, isOwn: true })) refused.own++;
      if (!shares.admit(at, { app: 1 })) refused.app++;
      else if (ms % 3 === 0) shares.dispatched([{ app: 1 }], { idleFor, run: 3_000, work: 3_000 });
      else shares.dropped(at, { app: 1 });
    }
    return refused;
  };
  expect(refusedOf(9_000)).toEqual({ own: 0, app: 0 });
  const busy = refusedOf(0);
  expect(busy.own).toBe(1_000);
  expect(busy.app).toBeGreaterThan(300);
});

test("a priority that was silent when the overload of its own application began is limited like any other (SHARE-3)", () => {
  const shares = new FairShares({ priorityFloor: 0 }, millis(100));
  const admitted = [0, 0];
  const ask = (at: Instant, priority: number, isServed: boolean): void => {
    const request = { app: 1, priority };
    if (!shares.admit(at, request)) return;
    admitted[priority === 0 ? 0 : 1]!++;
    if (isServed) shares.dispatched([request], BUSY);
    else shares.dropped(at, request);
  };
  const instantAt = (ms: number): Instant => millis(1_000 + ms) as unknown as Instant;
  ask(instantAt(0), 0, true);
  for (let ms = 0; ms < 5_000; ms++) ask(instantAt(ms), 7, true);
  for (let ms = 5_000; ms < 8_000; ms++) {
    for (let i = 0; i < 4; i++) ask(instantAt(ms), 7, i === 0);
    if (ms === 6_000) admitted[0] = 0;
    if (ms >= 6_000) ask(instantAt(ms), 0, false);
  }
  expect(admitted[0]).toBeLessThan(400);
});

test("several applications below capacity are served as if they were one (SHARE-1)", () => {
  const apps = new Flood({ senders: [steady(1, 500), steady(2, 400)], seconds: 2 });
  const one = new Flood({ senders: [steady(1, 500), steady(1, 400)], seconds: 2 });
  expect(apps.sent.map(({ outcome, endedAt }) => [outcome, endedAt])).toEqual(
    one.sent.map(({ outcome, endedAt }) => [outcome, endedAt]),
  );
});

test("an application that floods takes nothing from one that behaves as always, nor from the goodput (SHARE-2)", () => {
  const flood = new Flood({ senders: [steady(1, 400), flooding(2, 400, 2)], seconds: 6 });
  expect(flood.served(0, 2.5)).toBeGreaterThan(0.95 * flood.offered(0, 2.5));
  expect(flood.total(2.5)).toBeGreaterThan(0.95 * GOODPUT);
});

test("without usual rates shares are equal, and within 5 % of max-min", () => {
  const flood = new Flood({
    senders: [steady(1, 200), steady(2, 2 * GOODPUT), steady(3, 10 * GOODPUT)],
    seconds: 6,
  });
  const total = flood.total(2);
  const half = (total - flood.offered(0, 2)) / 2;
  expect(flood.served(0, 2)).toBeGreaterThan(0.95 * flood.offered(0, 2));
  for (const sender of [1, 2]) {
    expect(flood.served(sender, 2)).toBeGreaterThan(0.95 * half);
    expect(flood.served(sender, 2)).toBeLessThan(1.08 * half);
  }
});

test("configured weights are obeyed, and unnamed applications have the weight of others", () => {
  const rules = { weights: new Map([[1, 3]]), otherWeight: 1 };
  const flood = new Flood({ senders: [steady(1, 5 * GOODPUT), steady(2, 20 * GOODPUT)], seconds: 5, rules });
  const ratio = flood.served(0, 2) / flood.served(1, 2);
  expect(ratio).toBeGreaterThan(2.8);
  expect(ratio).toBeLessThan(3.2);
});

test("by default an application counts by its rate in calm, so that a flood doesn't win by flooding", () => {
  const flood = new Flood({
    senders: [{ app: 1, rate: (at) => (at < 2 ? 700 : 5 * GOODPUT) }, flooding(2, 100, 2)],
    seconds: 6,
  });
  const ratio = flood.served(0, 3) / flood.served(1, 3);
  expect(ratio).toBeGreaterThan(6);
  expect(ratio).toBeLessThan(8);
});

test("what a flood sends before anything is lost of it isn't its usual rate, in whichever part of a period it begins", () => {
  const keepOfSteady = (begin: number): number => {
    const shares = new FairShares({}, millis(100));
    for (let ms = 0; ms < begin + 1_000; ms++) {
      const at = millis(1_000 + ms) as unknown as Instant;
      const isLost = ms >= begin + 200; // until then, all of it waits
      const ask = (app: number, isServed: boolean): void => {
        if (!shares.admit(at, { app })) return;
        if (isServed) shares.dispatched([{ app }], BUSY);
        else if (isLost) shares.dropped(at, { app });
      };
      for (let i = 0; ms >= begin && i < 9; i++) ask(1, i === 0 && ms % 8 > 0);
      if (ms % 3 === 0) ask(1, true);
      if (ms % 10 === 0) ask(2, true);
    }
    expect(shares.isLimiting).toBe(true);
    return shares.shares().find(({ app }) => app === 2)?.keep ?? 1;
  };
  for (let begin = 2_000; begin < 2_600; begin += 20) expect(keepOfSteady(begin), `from ${begin} ms on`).toBe(1);
});

test("priorities share what their own application has: the higher first, a tenth kept for the lower (SHARE-3)", () => {
  const flood = new Flood({
    senders: [
      steady(1, 2 * GOODPUT, { priority: 0 }),
      steady(1, 2 * GOODPUT, { priority: 7 }),
      steady(2, 2 * GOODPUT, { priority: 255 }),
    ],
    seconds: 6,
  });
  const [low, high, other] = [0, 1, 2].map((sender) => flood.served(sender, 2));
  expect(low! + high!).toBeGreaterThan(0.95 * other!);
  expect(low! + high!).toBeLessThan(1.05 * other!);
  expect(low! / (low! + high!)).toBeGreaterThan(0.08);
  expect(low! / (low! + high!)).toBeLessThan(0.13);
});

test("what shares refuse is refused at the moment it comes, and nearly all of a flood is", () => {
  const flood = new Flood({ senders: [steady(1, 400), flooding(2, 400, 1)], seconds: 4 });
  const refused = flood.sent.filter(({ outcome, at }) => outcome !== "served" && at >= 1.3);
  const atOnce = refused.filter(({ at, endedAt }) => endedAt <= Math.round(at * 1e6) + 1);
  expect(atOnce.length / refused.length).toBeGreaterThan(0.99);
});

test("requests that can't be served in time even alone neither count as overload nor take a share (SHARE-4)", () => {
  const hopeless = steady(2, 10 * GOODPUT, { slo: millis(5) });
  const both = new Flood({ senders: [steady(1, 900), hopeless], seconds: 4 });
  expect(both.served(0, 1)).toBeGreaterThan(0.98 * both.offered(0, 1));
});

test("where most requests have deadlines too short for a busy accelerator, the others keep their share (SHARE-4)", () => {
  const shares = [1, 2, 3, 4].map((seed) => {
    const short = steady(2, 0.3 * GOODPUT, { slo: millis(8) });
    const shorter: Sender = { app: 3, rate: (at) => (at < 1 ? 0 : GOODPUT), slo: millis(9) };
    const flood = new Flood({ senders: [steady(1, 0.2 * GOODPUT), short, shorter], seconds: 6, seed });
    return flood.served(0, 1) / flood.offered(0, 1);
  });
  expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeGreaterThan(0.7);
});

test("ingresses let in twice the share of an application that is alone, and the core all of that (SHARE-1)", () => {
  const keepOf = (apps: readonly number[]): number => {
    const shares = new FairShares({}, millis(100));
    for (let ms = 0; ms < 3_000; ms++) {
      const at = millis(1_000 + ms) as unknown as Instant;
      for (const app of apps)
        for (let i = 0; i < 8; i++) {
          if (!shares.admit(at, { app })) continue;
          if (i === 0) shares.dispatched([{ app }], BUSY);
          else shares.dropped(at, { app });
        }
    }
    expect(shares.isOverloaded).toBe(true);
    return shares.shares()[0]!.keep;
  };
  expect(keepOf([1])).toBeGreaterThan(0.24);
  expect(keepOf([1])).toBeLessThan(0.3);
  expect(keepOf([1, 2])).toBeLessThan(0.15);
});

test("a model that is overloaded again after a calm has forgotten nothing and refuses nobody in the calm", () => {
  const flood = new Flood({
    senders: [steady(1, 400), { app: 2, rate: (at) => (at >= 2 && at < 4 ? 20 * GOODPUT : 300) }],
    seconds: 7,
  });
  expect(flood.served(0, 4.1) + flood.served(1, 4.1)).toBeGreaterThan(
    0.99 * (flood.offered(0, 4.1) + flood.offered(1, 4.1)),
  );
});

test("at its bound of classes, newcomers share one account and everything goes on (SHARE-5)", () => {
  const shares = new FairShares({}, millis(25));
  let at = 1_000_000 as Instant;
  const refused = new Set<number>();
  for (let period = 0; period < 40; period++) {
    for (let app = 0; app < 3 * CLASSES_MAX; app++) {
      at = (at + 10) as Instant;
      if (!shares.admit(at, { app })) refused.add(app);
      else if (app % 8 === 0) shares.dispatched([{ app }], BUSY);
      else shares.dropped(at, { app });
    }
    at = (at + 50_000) as Instant;
  }
  expect(shares.isLimiting).toBe(true);
  expect(shares.shares().length).toBeLessThanOrEqual(CLASSES_MAX + 1);
  expect(refused.size).toBeGreaterThan(2 * CLASSES_MAX);
});

test("whatever applications ask for and count, none gets less than its fair share of what is served", () => {
  for (let seed = 1; seed <= 6; seed++) {
    const prng = new Prng(seed);
    const count = 2 + prng.nextInt(4);
    const claims = Array.from({ length: count }, () => ({
      demand: GOODPUT * 10 ** (1.5 * prng.nextFloat() - 0.7),
      weight: 1 + prng.nextInt(4),
    }));
    const senders = claims.map(({ demand }, i) => steady(i + 1, demand));
    const weights = new Map(claims.map(({ weight }, i) => [i + 1, weight]));
    const flood = new Flood({ senders, seconds: 5, rules: { weights }, seed });
    const offered = claims.map(({ weight }, i) => ({ demand: flood.offered(i, 2), weight }));
    const level = waterLevel(flood.total(2), offered);
    for (const [i, { demand, weight }] of offered.entries())
      expect(flood.served(i, 2), `application ${i + 1} with seed ${seed}`).toBeGreaterThan(
        0.88 * Math.min(demand, level * weight),
      );
  }
});

test("a model that starts in a flood finds its capacity within a second, from next to nothing", () => {
  const flood = new Flood({ senders: [steady(1, 5 * GOODPUT), steady(2, 5 * GOODPUT)], seconds: 3 });
  expect(flood.total(1)).toBeGreaterThan(0.95 * GOODPUT);
});

test("a machine that stands still now and then, and is cold at first, isn't taken for overload: nearly all is let in that could be served", () => {
  for (let seed = 1; seed <= 4; seed++) {
    const pauses = pausesOf(seed, 12, (at) => (at < 2.5 ? 0.06 : 0.4));
    const rate = (at: number): number => (at < 0.2 ? 3 : 0.7 * GOODPUT);
    const options = { seconds: 12, seed, pauses };
    const two = new Flood({ ...options, senders: [{ app: 1, rate }, steady(2, 2)] });
    const one = new Flood({ ...options, senders: [{ app: 1, rate }, steady(1, 2)] });
    expect(two.total(0.2), `with seed ${seed}`).toBeGreaterThan(0.97 * one.total(0.2));
  }
});

test.each([20, 700])(
  "a flood into %i r/s that meets a machine standing still has all of its capacity soon after, shared as before",
  (rate) => {
    const parts: number[] = [];
    const modest: number[] = [];
    for (const [seed, after] of [0.02, 0.05, 0.5].entries()) {
      for (const lasting of [0.3, 1]) {
        const pause = { at: 3 + after, for: lasting };
        const senders = [steady(1, rate), flooding(2, 0.1 * rate, 3)];
        const flood = new Flood({ senders, seconds: pause.at + pause.for + 2, seed, pauses: [pause] });
        const goesOn = pause.at + pause.for;
        parts.push(flood.total(goesOn) / GOODPUT);
        modest.push(flood.served(0, goesOn) / flood.offered(0, goesOn));
      }
    }
    expect(Math.min(...parts)).toBeGreaterThan(0.75);
    const mean = (all: readonly number[]): number => all.reduce((sum, part) => sum + part, 0) / all.length;
    expect(mean(parts)).toBeGreaterThan(0.95);
    expect(mean(modest)).toBeGreaterThan(0.88);
  },
);

test.each([
  { rate: 20, on: 1, off: 0.7, part: 0.75 },
  { rate: 200, on: 0.6, off: 0.9, part: 0.75 },
  { rate: 500, on: 0.3, off: 0.3, part: 0.77 },
])("a flood that comes and goes finds the capacity that there was: %o", ({ rate, on, off, part }) => {
  const begin = 3;
  const isOn = (at: number): boolean => at >= begin && (at - begin) % (on + off) < on;
  const wild = { app: 2, rate: (at: number) => (isOn(at) ? 10 * GOODPUT : 0) };
  const { sent } = new Flood({ senders: [steady(1, rate), wild], seconds: 12 });
  // Arrivals of a flood's first tenth of a second take the place of requests that are being served.
  const counts = (at: number): boolean => at >= begin + 1 && isOn(at) && isOn(at - 0.1);
  const ms = Array.from({ length: 12_000 }, (_, i) => i / 1_000).filter(counts).length;
  const served = sent.filter(({ at, outcome }) => outcome === "served" && counts(at)).length;
  expect((1_000 * served) / ms).toBeGreaterThan(part * GOODPUT);
});

/** Random pauses of 15 to 45 ms. @param gap - mean time between them at a moment, s */
function pausesOf(seed: number, until: number, gap: (at: number) => number): Pause[] {
  const prng = new Prng(seed);
  const pauses: Pause[] = [{ at: 0.2, for: 0.12 }];
  for (let at = 0.32; at < until; at += pauses.at(-1)!.for) {
    at += prng.nextExponential(1 / gap(at));
    pauses.push({ at, for: 0.03 * (0.5 + prng.nextFloat()) });
  }
  return pauses;
}
