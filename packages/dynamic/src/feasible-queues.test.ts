import { type Instant, Prng, instant } from "@tutti/units";
import { describe, expect, test } from "vitest";
import {
  type DynamicRequest,
  FeasibleQueues,
  type FeasibleQueuesOptions,
  LatencyModel,
  Scan,
  affineCosts,
  histogram,
  histogramOf,
} from "./index.ts";

interface Named extends DynamicRequest {
  readonly name: string;
}

describe("B10.3: two applications, batch sizes 1, 2 and 4", () => {
  const model = new LatencyModel({
    apps: [
      { alone: histogram([10, 20], [1]), share: 1 },
      { alone: histogram([40, 60], [1]), share: 1 },
    ],
    ...{ sizes: [1, 2, 4], costs: affineCosts(4, 0.5), chances: 1e-4, halvingsMax: 0 },
  });
  const at = (time: number): Instant => time as Instant;
  const filled = (options: Partial<FeasibleQueuesOptions>) => {
    const queues = new FeasibleQueues<Named>({ model, chances: 1e-4, requestsMax: 16, ...options });
    const slots = new Map<string, number>();
    const given = { r1: [0, 20], r2: [1, 70], r3: [0, 90], r4: [0, 150], r5: [1, 160] } as const;
    for (const [name, [app, deadline]] of Object.entries(given))
      slots.set(name, queues.add(at(0), { name, app, deadline: at(deadline) }) as number);
    return { queues, slots };
  };
  const taken = (queues: FeasibleQueues<Named>, now: number): string[] => {
    const batch: Named[] = [];
    queues.take(at(now), queues.choose(), batch);
    return batch.map(({ name }) => name).sort();
  };

  test("the largest size with enough requests is chosen, and in it the best scores", () => {
    const { queues, slots } = filled({});
    expect([0, 1, 2].map((place) => queues.sizeAt(place))).toEqual([5, 4, 2]);
    const scores = { r3: 0.0272511, r4: 0.0270881, r2: 0.0184889, r5: 0.0183233 };
    for (const [name, score] of Object.entries(scores))
      expect(queues.scoreAt(at(0), slots.get(name)!, 1)).toBeCloseTo(score, 7);
    expect(model.sizes[queues.choose()]).toBe(2);
    expect(taken(queues, 0)).toEqual(["r3", "r4"]);
    expect([0, 1, 2].map((place) => queues.sizeAt(place))).toEqual([3, 2, 1]);
  });

  test("with 'urgent' the earliest deadline chooses the size; what is late is dropped first", () => {
    const { queues } = filled({ sizeOrder: "urgent" });
    expect(model.sizes[queues.choose()]).toBe(1);
    expect(queues.nextDropAt).toBe(8.5);
    const dropped: string[] = [];
    queues.advance(at(10), ({ name }) => dropped.push(name));
    expect(dropped).toEqual(["r1"]);
    expect(model.sizes[queues.choose()]).toBe(2);
    expect(taken(queues, 10)).toEqual(["r3", "r4"]);
    expect(taken(filled({ sizeOrder: "urgent" }).queues, 0)).toEqual(["r1"]);
  });
});

const START = instant(1_767_225_600_000_000);
const SIZES = [1, 2, 4, 8, 16];

function randomModel(prng: Prng): LatencyModel {
  const modes = [20_000, 45_000, 130_000];
  const apps = Array.from({ length: 3 }, (_, app) => ({
    alone: histogramOf(
      Array.from({ length: 200 }, () => {
        const mode = modes[prng.nextInt(app + 1)]!;
        return mode * (0.9 + 0.2 * prng.nextFloat());
      }),
    ),
    share: 1 + prng.nextInt(3),
  }));
  return new LatencyModel({ apps, sizes: SIZES, costs: affineCosts(4_000, 0.3), chances: 1e-7 });
}

/** Plays one random history on queues of each kind, and returns the requests that left each of them. */
function play(seed: number, options: Partial<FeasibleQueuesOptions>[], rebases: "often" | "never") {
  const chances = rebases === "often" ? 5e-4 : 1e-7;
  const prng = new Prng(seed);
  const model = randomModel(prng);
  const all = options.map((one) => new FeasibleQueues<Named>({ model, chances, requestsMax: 300, ...one }));
  const left = all.map((): string[] => []);
  const slots: number[] = [];
  let now = START;
  let added = 0;
  for (let step = 0; step < 4_000; step++) {
    now = (now + prng.nextInt(9_000)) as Instant;
    const dice = prng.nextFloat();
    for (const [i, queues] of all.entries())
      queues.advance(now, ({ name }) => left[i]!.push(`${name} dropped at ${now}`));
    if (dice < 0.7) {
      const deadline = (now + 15_000 + prng.nextInt(1_200_000)) as Instant;
      const request = { name: `r${step}`, app: prng.nextInt(3), deadline };
      const answers = all.map((queues) => queues.add(now, request));
      if (answers.some((answer) => answer !== answers[0])) expect(answers).toBe("equal");
      if (typeof answers[0] === "number") {
        added++;
        slots.push(answers[0]);
      }
    } else if (dice < 0.73 && slots.length > 0) {
      const slot = slots[prng.nextInt(slots.length)]!;
      for (const [i, queues] of all.entries()) {
        const removed = queues.remove(slot);
        if (removed !== undefined) left[i]!.push(`${removed.name} removed`);
      }
    } else if (dice < 0.9) {
      for (const [i, queues] of all.entries()) {
        const place = queues.choose();
        if (place < 0) continue;
        const batch: Named[] = [];
        const scores = new Map(
          slotsOf(queues).map((slot) => [queues.request(slot)!.name, queues.scoreAt(now, slot, place)]),
        );
        queues.take(now, place, batch);
        expect(batch.length).toBe(SIZES[place]);
        left[i]!.push(...batch.map(({ name }) => `${name} ran at ${now} of ${batch.length}`));
        // The batch was feasible, and scored at least as well as the requests that stay.
        for (const { name } of batch) expect(scores.get(name)).toBeGreaterThan(0);
      }
    } else if (dice < 0.902) {
      const refreshed = randomModel(new Prng(step));
      for (const [i, queues] of all.entries())
        queues.refresh(now, refreshed, ({ name }) => left[i]!.push(`${name} dropped at a refresh`));
    }
    for (const queues of all) if (!isNested(queues)) expect(sizesOf(queues)).toBe("nested"); // FQ1
  }
  for (const [i, queues] of all.entries()) {
    queues.advance((now + 10_000_000) as Instant, ({ name }) => left[i]!.push(`${name} dropped in the end`));
    expect(queues.size).toBe(0);
  }
  return { left, added };
}

const sizesOf = (queues: FeasibleQueues<Named>): number[] => SIZES.map((_, place) => queues.sizeAt(place));
const isNested = (queues: FeasibleQueues<Named>): boolean =>
  sizesOf(queues).every((size, place, all) => size <= (all[place - 1] ?? queues.size)) &&
  queues.sizeAt(0) === queues.size;

const slotsOf = (queues: FeasibleQueues<Named>): number[] =>
  Array.from({ length: 300 }, (_, slot) => slot).filter((slot) => queues.request(slot) !== undefined);

test.for([1, 2, 3, 4])(
  "the tournament and the scan let the same requests go at the same moments, and each request once (FQ2, B11), seed %i",
  (seed) => {
    for (const rebases of ["often", "never"] as const) {
      const { left, added } = play(seed, [{}, { structure: () => new Scan() }], rebases);
      expect(left[0]).toEqual(left[1]);
      expect(left[0]!.length).toBe(added);
      expect(new Set(left[0]!.map((text) => text.split(" ")[0])).size).toBe(added);
    }
  },
);

test("a reset of the base time changes no order: scores before and after are the same (FQ3)", () => {
  const prng = new Prng(5);
  const model = randomModel(prng);
  const chances = 1e-4;
  const orders = [1, 40].map((resets) => {
    const queues = new FeasibleQueues<Named>({ model, chances, requestsMax: 300 });
    const draw = new Prng(9);
    for (let i = 0; i < 200; i++)
      queues.add(START, {
        name: `r${i}`,
        app: draw.nextInt(3),
        deadline: (START + 700_000 + draw.nextInt(1_500_000)) as Instant,
      });
    // Steps of 10 ms are 1 in b_τ·t, so that 33 of them reset the base time once; steps of 400 ms do it each time.
    for (let i = 1; i <= resets; i++) queues.advance((START + (400_000 * i) / resets) as Instant, () => undefined);
    const batch: Named[] = [];
    queues.take((START + 400_000) as Instant, 4, batch);
    return batch.map(({ name }) => name);
  });
  expect(orders[0]!.length).toBe(16);
  expect(orders[1]).toEqual(orders[0]);
});

test("at its bound it takes no more, and what could not even run alone is told so at once", () => {
  const model = randomModel(new Prng(1));
  const queues = new FeasibleQueues<Named>({ model, chances: 1e-7, requestsMax: 2 });
  const late = (START + 1_000) as Instant;
  expect(queues.add(START, { name: "a", app: 0, deadline: late })).toBe("infeasible");
  const deadline = (START + 1e6) as Instant;
  const slots = ["b", "c"].map((name) => queues.add(START, { name, app: 0, deadline }));
  expect(slots).toEqual([0, 1]);
  expect(queues.add(START, { name: "d", app: 0, deadline })).toBe("full");
  expect(queues.remove(0)?.name).toBe("b");
  expect(queues.remove(0)).toBeUndefined();
  expect(queues.add(START, { name: "e", app: 0, deadline })).toBe(0);
});
