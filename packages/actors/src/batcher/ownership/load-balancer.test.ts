import { VirtualClock } from "@tutti/ports/clock";
import { type ActorKey, Prng, actorKey, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { MODEL_LOAD, type OwnedModel } from "./balance.ts";
import { BALANCE_EVERY, LoadBalancer, STAYS_FOR } from "./load-balancer.ts";
import { ModelLoads } from "./model-loads.ts";
import { ThreadTable } from "../thread-table.ts";

const [self, other, third] = [11, 222, 3333].map(actorKey) as [ActorKey, ActorKey, ActorKey];

function scene(models: readonly number[], others: readonly (readonly [ActorKey, number])[]) {
  const clock = new VirtualClock();
  const state = {
    owned: models.map((load, i): OwnedModel => ({ number: i + 1, load })),
    others: new Map<ActorKey, number>(others),
    leaving: false,
  };
  const balancer = new LoadBalancer({
    clock,
    self,
    owned: () => state.owned,
    others: () => state.others,
    leaving: () => state.leaving,
  });
  clock.every(millis(20), () => balancer.tick());
  return { clock, balancer, state };
}
const movesOf = (balancer: LoadBalancer): [number, ActorKey][] => [...balancer.moves];

test("loads are evened out by one move at a time, and what does not come about is thought over", () => {
  const { clock, balancer, state } = scene([100, 90, 80], [[other, 10]]);
  clock.advanceBy(micros(BALANCE_EVERY - millis(20)));
  expect(movesOf(balancer)).toEqual([]);
  clock.advanceBy(millis(20));
  expect(movesOf(balancer)).toEqual([[1, other]]);
  state.others.set(other, 300);
  clock.advanceBy(BALANCE_EVERY);
  expect(movesOf(balancer)).toEqual([]);
});

test("a model that was received stays for a while, unless this batcher leaves", () => {
  const { clock, balancer, state } = scene([100, 90], [[other, 190]]);
  balancer.begin();
  clock.advanceBy(micros(seconds(5) + millis(20)));
  for (const number of [1, 2]) balancer.received(number);
  state.others.set(other, 10);
  clock.advanceBy(STAYS_FOR);
  expect(movesOf(balancer)).toEqual([]);
  clock.advanceBy(BALANCE_EVERY);
  expect(movesOf(balancer)).toEqual([[2, other]]);
  state.leaving = true;
  clock.advanceBy(millis(20));
  expect(movesOf(balancer).sort()).toEqual([
    [1, other],
    [2, other],
  ]);
});

test("what a batcher receives when it joins need not stay: its loads are not known yet", () => {
  const { clock, balancer } = scene([100, 90], [[other, 10]]);
  balancer.begin();
  for (const number of [1, 2]) balancer.received(number);
  clock.advanceBy(BALANCE_EVERY);
  expect(movesOf(balancer)).toEqual([[2, other]]);
});

test("a batcher that joins is given its part at once, and nothing else moves until its loads can be seen", () => {
  const { clock, balancer, state } = scene([10, 10, 10, 10], []);
  state.others.set(other, 0);
  balancer.joined(other);
  clock.advanceBy(millis(20));
  expect(movesOf(balancer)).toHaveLength(2);
  state.owned.splice(0, 2);
  state.owned.push({ number: 5, load: 500 }, { number: 6, load: 500 });
  clock.advanceBy(seconds(5));
  expect(movesOf(balancer)).toEqual([]);
  clock.advanceBy(micros(BALANCE_EVERY + millis(20)));
  expect(movesOf(balancer)).toEqual([[5, other]]);
});

test("a model that was handed on and comes back is not handed on again: two batchers that joined at once don't pass it to and fro", () => {
  const { clock, balancer, state } = scene([20, 20], []);
  state.others.set(other, 0);
  balancer.joined(other);
  clock.advanceBy(millis(20));
  const [[number] = [0]] = movesOf(balancer);
  const passed = state.owned.filter((model) => model.number === number);
  state.owned = state.owned.filter((model) => model.number !== number);
  clock.advanceBy(millis(20));
  state.owned.push(...passed);
  balancer.received(number);
  clock.advanceBy(millis(20));
  expect([passed.length, movesOf(balancer)]).toEqual([1, []]);
});

test("when an heir of a leaving batcher is gone too, its part goes to another, and what others take meanwhile is kept", () => {
  const { clock, balancer, state } = scene(
    [10, 20, 30],
    [
      [other, 100],
      [third, 0],
    ],
  );
  state.leaving = true;
  clock.advanceBy(millis(20));
  expect(movesOf(balancer).map(([, to]) => to)).toEqual([third, third, third]);
  state.others.delete(third);
  clock.advanceBy(millis(20));
  expect(movesOf(balancer).map(([, to]) => to)).toEqual([other, other, other]);
  state.others.set(third, 0);
  clock.advanceBy(millis(20));
  expect(movesOf(balancer).map(([, to]) => to)).toEqual([other, other, other]);
});

/**
 * Batchers that serve models of constant rates. Each reads its arrivals from second to second, and the heartbeats of
 * the others of a second ago.
 */
test("loads that only vary by chance come to rest within minutes, and no model goes to and fro", () => {
  const prng = new Prng(5);
  const clock = new VirtualClock();
  const keys = [self, other, third];
  const rates = Array.from({ length: 24 }, () => 1 + prng.nextInt(400));
  const holder = rates.map(() => self);
  const seen = new Map(keys.map((key) => [key, 0]));
  const measured = rates.map((rate) => rate);
  const movedAt: number[][] = rates.map(() => []);
  const owned = (key: ActorKey): OwnedModel[] =>
    holder.flatMap((by, i) => (by === key ? [{ number: i + 1, load: MODEL_LOAD + measured[i]! }] : []));
  const balancers = new Map(
    keys.map((key) => [
      key,
      new LoadBalancer({
        clock,
        self: key,
        owned: () => owned(key),
        others: () => new Map([...seen].filter(([peer]) => peer !== key)),
        leaving: () => false,
      }),
    ]),
  );
  for (const balancer of balancers.values()) balancer.begin();
  for (let second = 0; second < 900; second++) {
    for (const [i, rate] of rates.entries()) {
      let arrivals = 0;
      for (let at = -Math.log(1 - prng.nextFloat()); at < rate; at -= Math.log(1 - prng.nextFloat())) arrivals++;
      measured[i] = measured[i]! + 0.2 * (arrivals - measured[i]!);
    }
    for (const key of keys)
      seen.set(
        key,
        owned(key).reduce((sum, { load }) => sum + load, 0),
      );
    clock.advanceBy(seconds(1));
    for (const balancer of balancers.values()) {
      balancer.tick();
      for (const [number, to] of balancer.moves) {
        if (holder[number - 1] === to) continue;
        holder[number - 1] = to;
        movedAt[number - 1]!.push(second);
        balancers.get(to)!.received(number);
      }
    }
  }
  const loads = keys.map((key) => owned(key).reduce((sum, { load }) => sum + load, 0));
  expect(Math.max(...loads)).toBeLessThan(1.4 * Math.min(...loads));
  expect(movedAt.flat().filter((second) => second > 300)).toEqual([]);
  for (const times of movedAt) expect(times.length).toBeLessThanOrEqual(2);
});

test("the load of a model is its requests a second and a constant, as of some seconds", () => {
  const threads = new ThreadTable();
  const entry = { index: 0, id: 64, spec: { number: 1 }, arrivals: 0 };
  threads.add(entry as never);
  const loads = new ModelLoads();
  const clock = new VirtualClock();
  const readAfter = (arrivals: number): number => {
    clock.advanceBy(seconds(1));
    entry.arrivals += arrivals;
    loads.read(threads, clock.now());
    return loads.of(1);
  };
  expect(readAfter(1_000_000)).toBe(MODEL_LOAD); // it is unknown since when these came
  expect(readAfter(200)).toBe(MODEL_LOAD + 200);
  expect(readAfter(300)).toBe(MODEL_LOAD + 220);
  expect(loads.total).toBe(MODEL_LOAD + 220);
  threads.remove(entry as never);
  expect(readAfter(0)).toBe(MODEL_LOAD);
  expect(loads.total).toBe(0);
});
