import { expect, test } from "vitest";
import { VirtualClock } from "@tutti/clock";
import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/store";
import { type ActorKey, Prng, actorKey, after, instant, micros, millis } from "@tutti/units";
import { Catalog, type CatalogModel } from "../catalog.ts";
import { ModelLeases, heir } from "./model-leases.ts";
import { PullCost } from "./pull-cost.ts";

test("d_data is the slope over the batch size and d_ctrl what remains, so that one round trip is not charged per item", () => {
  const cost = new PullCost({ ctrl: micros(100), perItem: 5, perKilobyte: 1 }, 1_024);
  const prng = new Prng(5);
  for (let i = 0; i < 2_000; i++) {
    const batchSize = 1 + prng.nextInt(32);
    cost.note(instant(1_000_000 + i * 20_000), batchSize, micros(400 + 20 * batchSize + prng.nextInt(40)));
  }
  expect(cost.perItem()).toBeGreaterThan(18);
  expect(cost.perItem()).toBeLessThan(22);
  const ctrl = cost.ctrl(instant(41_000_000));
  expect(ctrl).toBeGreaterThan(390);
  expect(ctrl).toBeLessThan(560);
});

test("a shortage of processors, which comes with large batches, is not blamed on the items", () => {
  const cost = new PullCost({ ctrl: micros(100), perItem: 2, perKilobyte: 0 }, 4);
  for (let i = 0; i < 2_000; i++) {
    const short = i % 100 < 30;
    cost.note(instant(1_000_000 + i * 20_000), short ? 16 : 2, micros(short ? 30_000 : 500));
  }
  expect(cost.perItem()).toBeLessThanOrEqual(8);
});

test("delays never fall below their floors", () => {
  const cost = new PullCost({ ctrl: micros(300), perItem: 2, perKilobyte: 0 }, 4);
  for (let i = 0; i < 100; i++) cost.note(instant(1_000_000 + i), 1 + (i % 8), micros(5));
  expect(cost.ctrl(instant(1_100_000))).toBe(300);
  expect(cost.perItem()).toBe(2);
});

test("when a batcher dies only its own models move, and models spread evenly", () => {
  const batchers: ActorKey[] = [11, 222, 3333, 44444].map(actorKey);
  const before = Array.from({ length: 1_000 }, (_, model) => heir(batchers, model));
  const after = Array.from({ length: 1_000 }, (_, model) => heir(batchers.slice(1), model));
  for (let model = 0; model < 1_000; model++)
    if (before[model] !== batchers[0]) expect(after[model]).toBe(before[model]);
  for (const batcher of batchers) {
    const share = before.filter((key) => key === batcher).length;
    expect(share).toBeGreaterThan(150);
    expect(share).toBeLessThan(350);
  }
  expect(heir([], 1)).toBeUndefined();
});

test("two batchers that hear the store but not each other take a model from one another once in a time-out, not at every write", () => {
  const clock = new VirtualClock();
  const later = (run: () => void): void => clock.alarm(run).set(after(clock.now(), micros(50)));
  const store = new InMemoryStore({ deliver: later });
  const spec = { name: "m", number: 1, version: "1", inputs: [], buckets: [{}] } as unknown as ModelSpec;
  const status = { name: "m", number: 1, version: "1", state: "ready" } as ModelStatus;
  const log = { child: () => log } as never;
  let moves = 0;
  for (const self of [11, 222].map(actorKey)) {
    const onChange = (model: CatalogModel): void => {
      if (self === 11) moves = model.lease?.term ?? 0;
      leases.claim(model);
    };
    const catalog = new Catalog(store, log, { onChange });
    const leases = new ModelLeases({
      clock,
      peerTimeout: millis(100),
      store,
      catalog: () => catalog,
      self,
      alive: () => [self],
      knowsPeers: () => true,
    });
    catalog.open(() => undefined);
  }
  store.put("tutti_models", "m", new TextEncoder().encode(JSON.stringify(spec)), () => undefined);
  store.put("tutti_profiles", "m", new TextEncoder().encode(JSON.stringify(status)), () => undefined);
  clock.advanceBy(millis(1_000));
  expect(moves).toBeGreaterThan(1);
  expect(moves).toBeLessThanOrEqual(11);
});
